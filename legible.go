package sqllock

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// legible makes one printable line of a text that others choose: a name with a line feed would forge a line of the log, one
// with an escape would command the terminal that shows it, and one with a change of direction would read as another. Its
// length is that of a statement in a report.
func legible(text string) string { return escape(text, maxStatement) }

func escape(text string, limit int) string {
	if len(text) <= limit && isLegible(text) {
		return text
	}
	var b strings.Builder
	for i, n := 0, 0; i < len(text); i += n {
		var r rune
		r, n = utf8.DecodeRuneInString(text[i:])
		if b.Len() >= limit {
			b.WriteString("…")
			break
		}
		b.WriteString(legibleRune(r, text[i:i+n]))
	}
	return b.String()
}

func isLegible(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// legibleRune writes what is not to be printed as Go source would.
func legibleRune(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case !unicode.IsPrint(r):
		return strings.Trim(fmt.Sprintf("%+q", r), "'")
	}
	return raw
}
