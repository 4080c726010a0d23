package main

import (
	"fmt"
	"html"
	"os"
	"strings"
)

// drawn are the rivals of the picture, from the top.
var drawn = []string{
	"sqllock, PostgreSQL, pgx", "sqllock, MySQL", "sqllock, MariaDB", "rueidis, auto-pipelined", "rueidislock", "bsm/redislock", "redsync",
}

// draw writes bars of the pairs a second at 256 goroutines.
func (s speeds) draw(file string) error {
	const n, left, bar, width = 256, 210, 26, 760
	most := 0.0
	for _, name := range drawn {
		most = max(most, s[name][n])
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+"\n", width, 40+bar*len(drawn))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="10" y="22" font-weight="bold">Pairs of acquire and release a second, 256 goroutines, one process, 2 cores</text>`+"\n")
	for i, name := range drawn {
		y, v := 36+bar*i, s[name][n]
		colour := "#9aa5b1"
		if strings.HasPrefix(name, "sqllock") {
			colour = "#2f6fab"
		}
		length := v / most * (width - left - 80)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.0f" height="%d" fill="%s"/><text x="%.0f" y="%d">%.0f</text>`+"\n",
			left-8, y+15, html.EscapeString(name), left, y+2, length, bar-8, colour, float64(left)+length+6, y+15, v)
	}
	b.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
