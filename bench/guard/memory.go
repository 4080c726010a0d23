package main

import (
	"context"
	"database/sql/driver"
	"fmt"
	"runtime"
)

// maxBytes is what the guard may add to a connection.
const maxBytes = 1024

// memory is a question about the heap that a connection takes, once it has been used.
type memory struct {
	what string
	use  func(source, driver.Conn) error
}

func (m memory) measure(s source, n int) (row, error) {
	r := row{what: m.what, bar: fmt.Sprintf("+%d B", maxBytes)}
	var bytes [rivals]int
	for i := range bytes {
		total, err := m.heapOf(s, i, n)
		if err != nil {
			return r, err
		}
		bytes[i] = total / n
		r.cells[i] = fmt.Sprintf("%+d B", bytes[i]-bytes[bare])
	}
	r.cells[bare] = fmt.Sprintf("%d B", bytes[bare])
	over := func(rival int) bool { return bytes[rival]-bytes[bare] > maxBytes }
	r.verdict = judge(!over(guarded), over(control))
	return r, nil
}

// heapOf returns the bytes that n connections of a rival keep alive.
func (m memory) heapOf(s source, rival, n int) (int, error) {
	connector, err := s.connector(rival)
	if err != nil {
		return 0, err
	}
	before := heap()
	conns := make([]driver.Conn, n)
	for i := range conns {
		if conns[i], err = connector.Connect(context.Background()); err != nil {
			return 0, err
		}
		if err := m.use(s, conns[i]); err != nil {
			return 0, err
		}
	}
	after := heap()
	runtime.KeepAlive(conns)
	return after - before, nil
}

func heap() int {
	runtime.GC()
	runtime.GC() // what the first one has finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// useOrdinary sends a statement that has nothing to do with locks.
func useOrdinary(_ source, c driver.Conn) error {
	return send(c, "SELECT name FROM orders WHERE id = 7")
}

// useLock takes a lock and releases it.
func useLock(s source, c driver.Conn) error {
	calls, key := callsOf(s.dialect), keyOf(s.dialect, 42)
	if err := send(c, calls.acquire, key); err != nil {
		return err
	}
	return send(c, calls.release, key)
}

// send does what a QueryRow.Scan of database/sql does.
func send(c driver.Conn, query string, args ...driver.Value) error {
	named := make([]driver.NamedValue, len(args))
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	rows, err := c.(driver.QueryerContext).QueryContext(context.Background(), query, named)
	if err != nil {
		return err
	}
	if err := rows.Next(make([]driver.Value, 1)); err != nil {
		rows.Close()
		return err
	}
	return rows.Close()
}
