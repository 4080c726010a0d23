package sqllock

import "time"

// LossBound returns how long a holder may take at most to be told that its session has ended: the keepalive and the
// time that the server has to answer it. A server that becomes read-only, or a standby, is told within it, too. With pgxlock or mysqllock most losses are told within milliseconds; the bound is for
// networks that go silent.
func (v view) LossBound() time.Duration { return v.l.cfg.keepalive + v.l.cfg.timeout }
