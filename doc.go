// Package sqllock makes database session locks safe to use through a database/sql pool.
package sqllock
