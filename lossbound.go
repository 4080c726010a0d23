package sqllock

import "time"

// LossBound returns how long a holder may take at most to be told that its session has ended: the keepalive and the
// time that the server has to answer it. That a server has become read-only, or a standby, is told within it, too. With pgxlock or
// mysqllock most losses are told within milliseconds; the bound is for networks that go silent. A process that was stopped for
// longer asks the server once more when it goes on, which has an eighth of that time to answer: 0.6 s with the defaults.
func (v view) LossBound() time.Duration { return v.l.cfg.keepalive + v.l.cfg.timeout }
