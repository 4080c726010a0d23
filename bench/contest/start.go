package contest

import (
	"fmt"
	"testing"

	"github.com/sqllock/sqllock/internal/testbed"
)

// host is the test that testbed wants: it has only the methods that starting a shared server needs.
type host struct{ testing.TB }

// stopped is how a host leaves a function of testbed.
type stopped struct{ error }

func (host) Helper()                   {}
func (host) Skipf(f string, a ...any)  { panic(stopped{fmt.Errorf(f, a...)}) }
func (host) Fatalf(f string, a ...any) { panic(stopped{fmt.Errorf(f, a...)}) }

// Start starts one of testbed's shared servers, or says why there is none.
func Start(server func(testing.TB) *testbed.Server) (s *testbed.Server, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case stopped:
			err = v
		default:
			panic(v)
		}
	}()
	return server(host{}), nil
}
