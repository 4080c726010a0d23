package torture

import "time"

// An event is what a worker tells the witness. The clock is that of the machine, which all workers share.
type event struct {
	At      time.Time
	Kind    string        // enter, leave or end: of a section, or of an operation that came to none
	Section int64         // of the worker; 0 without one
	Op      string        // what was called
	Key     string        `json:",omitempty"`
	Shared  bool          `json:",omitempty"`
	Job     string        `json:",omitempty"` // of the ledger
	Slot    int64         `json:",omitempty"`
	Token   int64         `json:",omitempty"`
	Fenced  bool          `json:",omitempty"` // leave: the resource refused the token
	Bound   time.Duration `json:",omitempty"` // within which the holder must be told of a loss
	Told    bool          `json:",omitempty"` // leave: its context had ended
	Result  string        `json:",omitempty"` // end
	Error   string        `json:",omitempty"` // end: why it was lost
}

// How an operation ends.
const (
	kept    = "kept"    // the lock was confirmed to have been held to the end
	lost    = "lost"    // the holder was told, or could not be sure
	held    = "held"    // somebody else had it
	skipped = "skipped" // the ledger had no need
	failed  = "failed"  // nothing was acquired
	done    = "done"    // what was wanted has been done, without a section
)
