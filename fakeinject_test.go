package sqllock

import (
	"context"
)

// A fault is what happens instead of one execution of a text; do is the execution.
type fault func(ctx context.Context, s *fakeSession, do execution) (*fakeResult, error)

type execution func(context.Context) (*fakeResult, error)

// inject makes the next executions of text go wrong, one fault each; nil is none.
func (srv *fakeServer) inject(text string, faults ...fault) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.faults[text] = append(srv.faults[text], faults...)
}

func (srv *fakeServer) nextFault(text string) (f fault) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if queue := srv.faults[text]; len(queue) > 0 {
		f, srv.faults[text] = queue[0], queue[1:]
	}
	return f
}

func none(ctx context.Context, _ *fakeSession, do execution) (*fakeResult, error) { return do(ctx) }

// failBefore: the statement is not executed.
func failBefore(err error) fault {
	return func(context.Context, *fakeSession, execution) (*fakeResult, error) { return nil, err }
}

// failAfter: the statement is executed, and the client gets an error.
func failAfter(err error) fault {
	return func(ctx context.Context, _ *fakeSession, do execution) (*fakeResult, error) {
		_, _ = do(ctx)
		return nil, err
	}
}

// failRow: the rows end in an error after n of them.
func failRow(n int, err error) fault {
	return func(ctx context.Context, _ *fakeSession, do execution) (*fakeResult, error) {
		r, e := do(ctx)
		if e == nil {
			r.failAt, r.rowErr = n, err
		}
		return r, e
	}
}

// failClose: closing the rows gives an error.
func failClose(err error) fault {
	return func(ctx context.Context, _ *fakeSession, do execution) (*fakeResult, error) {
		r, e := do(ctx)
		if e == nil {
			r.closeErr = err
		}
		return r, e
	}
}

// panics: the driver panics after it has executed the statement.
func panics(v any) fault {
	return func(ctx context.Context, _ *fakeSession, do execution) (*fakeResult, error) {
		_, _ = do(ctx)
		panic(v)
	}
}

// hangs: no answer until the context ends. A form without a context gets an error at once.
func hangs(executed bool) fault {
	return func(ctx context.Context, _ *fakeSession, do execution) (*fakeResult, error) {
		if executed {
			_, _ = do(ctx)
		}
		if ctx.Done() == nil {
			return nil, &fakeError{"hangs"}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// deaf: no answer until the test says so, whatever becomes of the context. Then all is well.
func deaf(until <-chan struct{}) fault {
	return func(_ context.Context, _ *fakeSession, do execution) (*fakeResult, error) {
		<-until
		return do(context.Background())
	}
}

// dies: the server ends the session instead of answering.
func dies(_ context.Context, s *fakeSession, _ execution) (*fakeResult, error) {
	s.tell(errFakeGone)
	s.end()
	return nil, errFakeGone
}

// lies: the answer is false although the statement did what it says, and then something goes wrong.
func lies(rowErr, closeErr error) fault {
	return func(ctx context.Context, _ *fakeSession, do execution) (*fakeResult, error) {
		r, err := do(ctx)
		if err == nil {
			*r = fakeResult{sets: oneRow("f", false), failAt: 1, rowErr: rowErr, closeErr: closeErr}
		}
		return r, err
	}
}

// refuses: the answer is false and nothing happens.
func refuses(context.Context, *fakeSession, execution) (*fakeResult, error) {
	return &fakeResult{sets: oneRow("f", false)}, nil
}
