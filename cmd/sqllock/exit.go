package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/sqllock/sqllock"
)

// The codes of sysexits(3) that sqllock exits with when it fails itself.
const (
	exUsage       = 64 // bad flags, a bad DSN, a bad key
	exNoHost      = 68 // the server's name is unknown
	exUnavailable = 69 // the server does not answer, or the command cannot be run
	exSoftware    = 70 // a mistake in sqllock
	exOSErr       = 71 // the system refuses a process or a pipe
	exTempFail    = 75 // the lock is lost; the server has no connection to spare
	exNoPerm      = 77 // wrong password, or a missing grant
	exConfig      = 78 // a server, a pooler or a database that cannot be used so
)

// An exit is how a command ends otherwise than with 0. Without a text nothing is said.
type exit struct {
	code int
	text string
}

func (e *exit) Error() string { return e.text }

func usage(text string) error { return &exit{exUsage, text} }

// codeOf says how to exit on an error of the library or of a driver.
func codeOf(err error) int {
	var e *exit
	var dns *net.DNSError
	switch {
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, sqllock.ErrUnsupported), errors.Is(err, sqllock.ErrPoolTooSmall):
		return exConfig
	case errors.Is(err, sqllock.ErrLost):
		return exTempFail
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return exUnavailable // as flock
	}
	if code := serverCode(err); code != 0 {
		return code
	}
	if errors.As(err, &dns) {
		return exNoHost
	}
	return exUnavailable
}

// serverCode reads what the server itself answered.
func serverCode(err error) int {
	var pg interface{ SQLState() string }
	if errors.As(err, &pg) {
		switch state := pg.SQLState(); {
		case strings.HasPrefix(state, "28"), state == "42501":
			return exNoPerm
		case state == "3D000":
			return exConfig
		case state == "53300":
			return exTempFail
		}
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		switch my.Number {
		case 1044, 1045, 1095, 1142, 1227, 1698:
			return exNoPerm
		case 1049:
			return exConfig
		case 1040, 1203:
			return exTempFail
		}
	}
	return 0
}

// line makes one line of an error's text, without the password. Our own texts have none, and a key may be the same word.
func line(err error, secrets ...string) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	var own *exit
	if errors.As(err, &own) {
		secrets = nil
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "xxxxx")
		}
	}
	return "sqllock: " + strings.TrimPrefix(printable(text), "sqllock: ")
}
