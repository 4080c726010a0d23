//go:build linux || darwin || freebsd

package testbed

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// canStart is nil where the test bed can start servers of its own.
var canStart error

// account is a user of the machine.
type account struct{ uid, gid uint32 }

// unprivileged returns an account for programs that refuse to run as root.
func unprivileged() *account {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &account{uint32(uid), uint32(gid)}
		}
	}
	return &account{65534, 65534}
}

// isRoot tells whether the test process may, and for some programs must, become another user.
func isRoot() bool { return os.Getuid() == 0 }

// runAs lets cmd run as a process group of its own, and as another user if as is not nil.
func runAs(cmd *exec.Cmd, as *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
}

// give makes dir and everything in it the property of another user, if to is not nil.
func give(dir string, to *account) error {
	if to == nil {
		return nil
	}
	return filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(to.uid), int(to.gid))
	})
}

// flock holds an exclusive lock on file, which is made if need be, until the returned function is called.
func flock(file string) (unlock func() error, err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f.Close, nil
}
