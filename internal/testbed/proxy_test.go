package testbed

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// echo starts a server that sends everything back, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// roundTrip sends four bytes and wants them back within a time.
func roundTrip(conn net.Conn, within time.Duration) error {
	conn.SetDeadline(time.Now().Add(within))
	if _, err := conn.Write([]byte("ping")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 4))
	return err
}

func TestProxyCounts(t *testing.T) {
	p := NewProxy(t, echo(t))
	conn := dial(t, p)
	for i := range int64(3) {
		if p.Sent() != 4*i || p.Received() != 4*i {
			t.Errorf("after %d round trips: sent %d, received %d", i, p.Sent(), p.Received())
		}
		if err := roundTrip(conn, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProxyCut(t *testing.T) {
	p := NewProxy(t, echo(t))
	old := dial(t, p)
	if err := roundTrip(old, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if err := roundTrip(old, 5*time.Second); err == nil {
		t.Error("a cut connection lives")
	}
	if err := roundTrip(dial(t, p), 5*time.Second); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestProxyBlackhole(t *testing.T) {
	p := NewProxy(t, echo(t))
	old := dial(t, p)
	p.Blackhole(true)
	p.Blackhole(true)
	for name, conn := range map[string]net.Conn{"old": old, "new": dial(t, p)} {
		err := roundTrip(conn, 30*time.Millisecond)
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
			t.Errorf("%s connection: got %v, want silence", name, err)
		}
	}
	p.Blackhole(false)
	p.Blackhole(false)
	old.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(old, make([]byte, 4)); err != nil {
		t.Errorf("what was sent into the black hole does not arrive: %v", err)
	}
}

func TestProxyDelay(t *testing.T) {
	p := NewProxy(t, echo(t))
	p.Delay(20 * time.Millisecond)
	conn, start := dial(t, p), time.Now()
	if err := roundTrip(conn, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("a round trip took %v", took)
	}
}

func TestProxyEndsWhileConnectionsAreStuck(t *testing.T) {
	t.Run("in a black hole", func(t *testing.T) {
		p := NewProxy(t, echo(t))
		p.Blackhole(true)
		roundTrip(dial(t, p), time.Millisecond)
	})
	t.Run("without a server", func(t *testing.T) {
		closed, _ := net.Listen("tcp", "127.0.0.1:0")
		closed.Close()
		if err := roundTrip(dial(t, NewProxy(t, closed.Addr().String())), 5*time.Second); err == nil {
			t.Error("got an answer")
		}
	})
}

// A pool whose server vanishes behind the proxy waits; one whose connections are cut sees an error.
func TestProxyBeforeAServer(t *testing.T) {
	eachKind(t, func(t *testing.T, kind kind) {
		s := kind.shared(t)
		p := NewProxy(t, s.Addr())
		conn, end := session(t, s.Via(p))
		defer end()
		execute(t, conn, "SELECT 1")
		before := p.Sent()
		p.Blackhole(true)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := conn.ExecContext(ctx, "SELECT 1"); err == nil {
			t.Error("got an answer out of a black hole")
		}
		if p.Sent() == before {
			t.Error("nothing was sent")
		}
		p.Cut()
		if _, err := conn.ExecContext(t.Context(), "SELECT 1"); err == nil {
			t.Error("got an answer through a cut connection")
		}
	})
}
