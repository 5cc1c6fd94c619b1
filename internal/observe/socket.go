package observe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
)

// ErrNoAgent reports that a process has no agent that this user can reach.
var ErrNoAgent = errors.New("the program has no agent that listens")

// Find returns the socket of the agent in a process. The error wraps ErrNoAgent if the process has no such socket.
func Find(pid int) (string, error) {
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("process %d: %w", pid, goproc.ErrNoProcess)
	}
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", ErrNoAgent
	}
	for _, dir := range dirs(int(owner.Uid)) {
		path := filepath.Join(dir, strconv.Itoa(pid)+".sock")
		if isSocketOf(path, owner.Uid) {
			return path, nil
		}
	}
	return "", fmt.Errorf("process %d: %w", pid, ErrNoAgent)
}

// dirs returns the directories in which the agent of a user's program makes its socket.
func dirs(uid int) []string {
	list := []string{fmt.Sprintf("/run/user/%d/loupe", uid), filepath.Join(os.TempDir(), fmt.Sprintf("loupe-%d", uid)), fmt.Sprintf("/tmp/loupe-%d", uid)}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); uid == os.Getuid() && filepath.IsAbs(dir) {
		list = append(list, filepath.Join(dir, "loupe"))
	}
	return list
}

// isSocketOf reports whether a path is a socket of a user, in a directory of that user.
func isSocketOf(path string, uid uint32) bool {
	for _, p := range []struct {
		path string
		mode fs.FileMode
	}{{filepath.Dir(path), fs.ModeDir}, {path, fs.ModeSocket}} {
		info, err := os.Lstat(p.path)
		if err != nil || info.Mode().Type() != p.mode {
			return false
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != uid {
			return false
		}
	}
	return true
}

const dialTime = 5 * time.Second

// dial connects to a socket. It returns the ID of the process that listens, as the kernel knows it; 0 if that is in another PID namespace.
func dial(ctx context.Context, path string) (*net.UnixConn, int, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, 0, dialError(path, err)
	}
	c := nc.(*net.UnixConn)
	raw, err := c.SyscallConn()
	var cred *unix.Ucred
	if err == nil {
		var credErr error
		err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		err = errors.Join(err, credErr)
	}
	if err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, int(cred.Pid), nil
}

// dialError adds what a failure to connect means.
func dialError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: there is no such socket", path, goproc.ErrNoProcess)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: %w: nobody listens on the socket", path, goproc.ErrNoProcess)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w: the socket is for the user of the program, and root", path, goproc.ErrPermission)
	}
	return err
}
