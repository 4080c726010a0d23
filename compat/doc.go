// Package compat shows two things of libraries that use database/sql: that they do not notice the guard, and that the
// session locks that they leave behind are ended by nothing but the driver's name. It holds tests and nothing else.
//
//	stage_test.go    the drivers and servers, bare and guarded
//	work_test.go     ordinary work: done bare and guarded, and compared
//	leak_test.go     leaks: made bare and guarded, and looked at from outside
//	document_test.go the table in docs/compatibility-orms.md, which has to be what was found
//
// and a file for each library: its ordinary work, and its leaks. GORM and sqlx are looked at more closely in examples/peers.
package compat
