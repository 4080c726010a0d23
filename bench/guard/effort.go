package main

// effort is how much of it is done.
type effort struct {
	rounds, calls                     int // on the null driver
	reconnects, serverRounds, perTurn int // on a real server
	leaks, conns                      int
}

var (
	thorough = effort{rounds: 1500, calls: 300, reconnects: 40, serverRounds: 16, perTurn: 50, leaks: 400, conns: 10_000}
	quick    = effort{rounds: 200, calls: 300, reconnects: 10, serverRounds: 8, perTurn: 50, leaks: 50, conns: 10_000}
)
