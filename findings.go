package sqllock

import (
	"fmt"
	"slices"
	"strings"
)

// A Severity says what a [Finding] means for locks. Its text, in JSON too, is "info", "warning" or "error".
type Severity uint8

const (
	// SeverityInfo: good to know.
	SeverityInfo Severity = iota
	// SeverityWarning: locks work, until something happens.
	SeverityWarning
	// SeverityError: locks do not exclude here, or cannot be taken.
	SeverityError
)

var severities = []string{"info", "warning", "error"}

// String returns "info", "warning" or "error".
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return fmt.Sprintf("Severity(%d)", uint8(s))
}

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities, string(text))
	if i < 0 {
		return fmt.Errorf("sqllock: %q is no severity: use info, warning or error", text)
	}
	*s = Severity(i)
	return nil
}

// A Finding is one thing that [Check] saw.
type Finding struct {
	Severity Severity `json:"severity"`
	Topic    string   `json:"topic"`            // "server", "standby", "cluster", "exclusion", "pooler", "statement cache", "lock table", "time-out", "pool" or "guard"
	Seen     string   `json:"seen"`             // what was seen
	Why      string   `json:"why,omitempty"`    // why it matters
	Remedy   string   `json:"remedy,omitempty"` // what to do about it
}

// String returns the finding in one to three lines.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-7s  %s: %s", f.Severity, f.Topic, f.Seen)
	if f.Why != "" {
		fmt.Fprintf(&b, "\n         why: %s", f.Why)
	}
	if f.Remedy != "" {
		fmt.Fprintf(&b, "\n         remedy: %s", f.Remedy)
	}
	return b.String()
}

// A Server is what answers.
type Server struct {
	Kind    string `json:"kind"`    // "PostgreSQL", "CockroachDB", "YugabyteDB", "Redshift", "MySQL", "MariaDB", "TiDB" or "Vitess"
	Version string `json:"version"` // such as "15.18"
	Text    string `json:"text"`    // all that it says of itself
}

// Findings is what [Check] saw.
type Findings struct {
	Server  Server     `json:"server"`
	Standby bool       `json:"standby"` // or read-only
	Pooler  PoolerMode `json:"pooler"`
	List    []Finding  `json:"findings"` // the worst first
}

func (f *Findings) sort() {
	slices.SortStableFunc(f.List, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
}

// Worst returns the highest severity of all findings.
func (f Findings) Worst() (worst Severity) {
	for _, one := range f.List {
		worst = max(worst, one.Severity)
	}
	return worst
}

// Err returns an error that names the first finding of [SeverityError], for programs that refuse to start on one;
// errors.Is tells [ErrUnsupported]. Without such a finding it is nil.
func (f Findings) Err() error {
	for _, one := range f.List {
		if one.Severity == SeverityError {
			return fmt.Errorf("%w: %s: %s: %s", ErrUnsupported, f.Server, one.Seen, one.Remedy)
		}
	}
	return nil
}

// String returns kind and version.
func (s Server) String() string { return strings.TrimSpace(s.Kind + " " + s.Version) }

// Headline says in a line what was looked at.
func (f Findings) Headline() string {
	line := f.Server.String()
	if f.Standby {
		line += ", a standby or read-only"
	}
	switch f.Pooler {
	case PoolerNone:
	case PoolerUnknown:
		line += ", through a pooler"
	default:
		line += fmt.Sprintf(", through a pooler in %s mode", f.Pooler)
	}
	return line
}

// String returns the findings for people to read, the worst first.
func (f Findings) String() string {
	lines := []string{f.Headline()}
	for _, one := range f.List {
		lines = append(lines, one.String())
	}
	return strings.Join(lines, "\n")
}
