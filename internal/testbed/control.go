package testbed

import (
	"syscall"
	"testing"
)

// Kill9 kills the server and its children, as a crash or a power cut would. [Server.Restart] brings it back.
func (s *Server) Kill9(t testing.TB) {
	t.Helper()
	if err := s.own(t).stop(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// Stop shuts the server down: "fast" lets it end its sessions in good order, "immediate" does not.
func (s *Server) Stop(t testing.TB, mode string) {
	t.Helper()
	p := s.own(t)
	signals := map[string]syscall.Signal{"fast": p.engine.fast, "immediate": p.engine.immediate}
	if signals[mode] == 0 {
		t.Fatalf("testbed: no stop mode %q", mode)
	}
	if err := p.stop(signals[mode]); err != nil {
		t.Fatal(err)
	}
}

// Restart starts the server again at the same address, after stopping it fast if it runs.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	p := s.own(t)
	if err := p.stop(p.engine.fast); err != nil {
		t.Fatal(err)
	}
	if _, err := p.run(); err != nil {
		t.Fatal(err)
	}
}

// Signal sends sig to the whole server: SIGSTOP makes it hang, with every connection open, until SIGCONT.
func (s *Server) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.own(t).killAll(sig); err != nil {
		t.Fatalf("testbed: %v to %s: %v", sig, s.Kind, err)
	}
}

// own returns the program behind s, which must be t's alone.
func (s *Server) own(t testing.TB) *program {
	t.Helper()
	if s.program == nil || !s.private {
		t.Fatalf("testbed: %s is shared; start a private one", s.Kind)
	}
	return s.program
}
