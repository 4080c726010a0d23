package main

import (
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// size returns what fits on the terminal behind v: 0, 0 where there is none, and so no limit.
func size(v any) (width, height int) {
	f, ok := v.(*os.File)
	if !ok || !terminal(f) {
		return 0, 0
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// A column has a heading, and how narrow it may become before the table loses it. The table loses the last ones first.
type column struct {
	heading string
	least   int
}

const gap = 2 // between columns

// table lays rows out in lines of at most width, or of any width if that is 0. What does not fit ends in an ellipsis.
func table(columns []column, rows [][]string, width int) []string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = utf8.RuneCountInString(c.heading)
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	widths = fit(columns, widths, width)
	headings := make([]string, len(columns))
	for i, c := range columns {
		headings[i] = c.heading
	}
	lines := []string{row(headings, widths)}
	for _, r := range rows {
		lines = append(lines, row(r, widths))
	}
	return lines
}

// fit narrows the widest columns first, and drops the last where all are at their least.
func fit(columns []column, widths []int, width int) []int {
	for width > 0 && len(widths) > 1 {
		total := gap * (len(widths) - 1)
		widest := -1
		for i, w := range widths {
			total += w
			if w > columns[i].least && (widest < 0 || w-columns[i].least > widths[widest]-columns[widest].least) {
				widest = i
			}
		}
		switch {
		case total <= width:
			return widths
		case widest >= 0:
			widths[widest]--
		default:
			widths = widths[:len(widths)-1]
		}
	}
	return widths
}

func row(cells []string, widths []int) string {
	var b strings.Builder
	for i, w := range widths {
		cell := shorten(cells[i], w)
		b.WriteString(cell)
		if i < len(widths)-1 {
			b.WriteString(strings.Repeat(" ", w-utf8.RuneCountInString(cell)+gap))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "…"
}

// printable makes what a server shows safe for a terminal and one line of it: names and statements are other people's text.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// wrap breaks text into lines of at most width, each indented.
func wrap(text string, width int, indent string) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	room := max(20, width-utf8.RuneCountInString(indent))
	used := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > room:
			b.WriteString("\n" + indent)
			used = 0
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
