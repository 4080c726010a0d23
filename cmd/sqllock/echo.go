package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// echo repeats an argument in a message, unless it may be a DSN in a place where none belongs.
func echo(arg string) string {
	if mayHaveSecret(arg) {
		return "(not shown: it may have a password; a DSN goes behind --dsn, or better into SQLLOCK_DSN)"
	}
	return strconv.Quote(shorten(arg, 100))
}

// flagError is the text of a flag that cannot be read, which has what was given as it was given.
func flagError(err error) string {
	if mayHaveSecret(err.Error()) {
		return "the flags cannot be read: see --help (what is wrong is not shown: it may have a password)"
	}
	return err.Error()
}

func mayHaveSecret(text string) bool {
	lower := strings.ToLower(text)
	return strings.Contains(text, "@") || strings.Contains(text, "://") || strings.Contains(lower, "passw") || strings.Contains(lower, "pwd")
}

// writeJSON writes one line that is safe for a terminal too: JSON itself lets pass what changes a text's direction, and C1's
// control characters.
func writeJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(text) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err = fmt.Fprintln(w, b.String())
	return err
}
