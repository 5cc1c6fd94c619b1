//go:build unix

package observe

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// private reports whether a directory belongs to the user, and no other may enter it.
func private(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o077 == 0
}

// refused reports whether nobody listens on a socket.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
