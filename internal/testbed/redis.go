package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
)

// Redis returns the Redis server that all tests of this process share: nothing is stored on disk. It is a rival to measure:
// only its address is of use.
func Redis(t testing.TB) *Server {
	t.Helper()
	return shared(t, redis)
}

var redis = &engine{
	kind: KindRedis,
	find: func() (string, error) { return exec.LookPath("redis-server") }, // it may be a link to a program that goes by its name
	command: func(p *program) []string {
		return []string{p.bin, "--bind", "127.0.0.1", "--port", strconv.Itoa(p.port), "--dir", p.dir, "--save", "", "--appendonly", "no"}
	},
	hello:     redisHello,
	fast:      syscall.SIGTERM,
	immediate: syscall.SIGKILL,
}

var (
	redisDir     = regexp.MustCompile(`\$3\r\ndir\r\n\$\d+\r\n([^\r]+)\r\n`)
	redisVersion = regexp.MustCompile(`redis_version:([^\r]+)\r\n`)
)

// redisHello speaks Redis's line protocol. The server's name is that of its folder.
func redisHello(ctx context.Context, s *Server) (name, version string, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.addr())
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	if _, err := fmt.Fprint(c, "CONFIG GET dir\r\nINFO server\r\nQUIT\r\n"); err != nil {
		return "", "", err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return "", "", err
	}
	dir, release := redisDir.FindSubmatch(answer), redisVersion.FindSubmatch(answer)
	if dir == nil || release == nil {
		return "", "", errors.New("not Redis")
	}
	return filepath.Base(string(dir[1])), string(release[1]), nil
}
