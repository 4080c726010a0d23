// Package load puts a guarded pool under load while some of its users leak locks in every way that the tests know, and
// looks from outside for how long a leaked lock stays. bench/load is the program, this package's test a short run.
//
// Reading order: load.go (what is run and what comes of it), phase.go (leaky and clean phases in turn), ways.go, ways_postgres.go
// and ways_mysql.go (how locks leak), work.go (what everybody else does), watch.go (looking from outside), trend.go
// (what has to be flat), pool.go (the pool, and what a connection costs).
package load
