package torture

import (
	"bufio"
	"encoding/json"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// An event is one line of a worker's log. The clock is that of the machine, which all workers share.
type event struct {
	At      time.Time
	Kind    string        // enter, leave, or end: of a section, or of an operation that came to none
	Section int64         // of the worker; 0 without one
	Op      string        // what was called
	Key     string        `json:",omitempty"`
	Shared  bool          `json:",omitempty"`
	Job     string        `json:",omitempty"` // of the ledger
	Slot    int64         `json:",omitempty"`
	Token   int64         `json:",omitempty"`
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
)

// A journal is a worker's log. Each event is one write, so that what was written survives a kill -9.
type journal struct {
	file     *os.File
	sections atomic.Int64
}

func (j *journal) write(e event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// readJournal ignores a last line that a kill cut off.
func readJournal(t testing.TB, path string) (events []event) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			events = append(events, e)
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return events
}
