package testbed

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a network between a client and a server that fails on demand. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	sent, received atomic.Int64

	mu    sync.Mutex
	ended bool
	links map[*link]bool
	delay time.Duration
	clear chan struct{} // closed while bytes may pass; replaced by an open one for a black hole
}

// link is one client's connection and the proxy's own to the server.
type link struct {
	ends []net.Conn
	cut  chan struct{} // closed when both ends are
}

// NewProxy starts a proxy in front of target (host:port), which ends with t.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testbed: %v", err)
	}
	p := &Proxy{target: target, listener: listener, links: map[*link]bool{}, clear: make(chan struct{})}
	close(p.clear)
	p.running.Go(p.accept)
	t.Cleanup(p.end)
	return p
}

// end closes everything and waits until it is closed.
func (p *Proxy) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

// Addr returns host:port of the proxy. See [Server.Via].
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Sent returns how many bytes clients have sent to the server, whether they were let through or not. A client that
// got an answer finds its request counted; what needs no answer may arrive a moment later.
func (p *Proxy) Sent() int64 { return p.sent.Load() }

// Received returns how many bytes the server has sent to clients.
func (p *Proxy) Received() int64 { return p.received.Load() }

// Cut closes every connection, at both ends. New ones are let through.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.closeLocked(l)
	}
}

// Sever closes every connection's end at the server, whose sessions end. In a black hole the clients do not hear of it.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		for _, server := range l.ends[1:] {
			server.Close()
		}
	}
}

// Blackhole switches a black hole on or off. It lets nothing through while connections stay open and new ones are
// accepted: to the client, the server has vanished without a word. Once it is off, what was sent meanwhile arrives.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.clear:
		if on {
			p.clear = make(chan struct{})
		}
	default:
		if !on {
			close(p.clear)
		}
	}
}

// Delay holds everything back for d, in each direction.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve carries bytes both ways until both ends have closed or the link is cut.
func (p *Proxy) serve(client net.Conn) {
	l := &link{cut: make(chan struct{})}
	defer p.close(l)
	if !p.join(l, client) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil || !p.join(l, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.carry(l, server, client, &p.sent) })
	both.Go(func() { p.carry(l, client, server, &p.received) })
	both.Wait()
}

// join makes conn an end of l, or closes it: l may have been cut meanwhile.
func (p *Proxy) join(l *link, conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-l.cut:
	default:
		if !p.ended {
			p.links[l] = true
			l.ends = append(l.ends, conn)
			return true
		}
	}
	conn.Close()
	return false
}

func (p *Proxy) close(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(l)
}

// closeLocked closes l's ends. p.mu is held.
func (p *Proxy) closeLocked(l *link) {
	if !p.links[l] {
		return
	}
	delete(p.links, l)
	close(l.cut)
	for _, end := range l.ends {
		end.Close()
	}
}

// carry copies one direction. An end of file is passed on as such: a server's last words must not be lost to a reset.
func (p *Proxy) carry(l *link, to, from net.Conn, count *atomic.Int64) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		count.Add(int64(n))
		if !p.pass(l) {
			return
		}
		if _, werr := to.Write(buf[:n]); werr != nil {
			p.close(l)
			return
		}
		switch err {
		case nil:
		case io.EOF:
			to.(*net.TCPConn).CloseWrite()
			return
		default:
			p.close(l)
			return
		}
	}
}

// pass waits until bytes may pass, and tells whether the link still stands.
func (p *Proxy) pass(l *link) bool {
	p.mu.Lock()
	clear, delay := p.clear, p.delay
	p.mu.Unlock()
	select {
	case <-clear:
	case <-l.cut:
		return false
	}
	if delay == 0 {
		return true
	}
	select {
	case <-time.After(delay):
		return true
	case <-l.cut:
		return false
	}
}
