package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stdout is the name that stands for standard output.
const Stdout = "-"

// File is a file that is being written, or standard output.
//
// A regular file gets its name when it is complete. Until then it is a file beside it, NAME.partial-PID, so a failure
// leaves what was there before, and a Loupe that is killed leaves what it has written. The file belongs to this user, or
// with sudo to the user who ran sudo, and only its owner may read it. A symbolic link is refused, because what it leads to
// may belong to somebody else.
//
// A pipe, a terminal and a device are written to at once.
type File struct {
	Name string // for messages: the path, or "standard output"

	w       *bufio.Writer
	file    *os.File // nil for standard output
	stream  *Stream  // that the file is written through; nil for a regular file
	stop    func() bool
	target  string // what the file is renamed to; empty when it is not
	written int64
	err     error // of the first write that failed
	owner   error // why the file could not be given to its owner
	over    bool  // Commit or Discard was called
}

const fileBuffer = 128 << 10

// Options say where files are written.
type Options struct {
	Stdout io.Writer // what the path Stdout stands for
	Owner  *Owner    // of regular files; nil for this user
}

// Owner is who a file belongs to.
type Owner struct{ UID, GID int }

// SudoUser returns the user who ran sudo, by its environment variables; nil when Loupe was not started by sudo.
func SudoUser(getenv func(string) string) *Owner {
	uid, uidErr := strconv.Atoi(getenv("SUDO_UID"))
	gid, gidErr := strconv.Atoi(getenv("SUDO_GID"))
	if os.Geteuid() != 0 || uidErr != nil || gidErr != nil {
		return nil
	}
	return &Owner{uid, gid}
}

// Create begins a file. Commit or Discard must follow. The context ends the wait for a reader of a named pipe, and bounds
// how long writing to a pipe waits.
func Create(ctx context.Context, path string, opt Options) (*File, error) {
	f := &File{Name: path}
	if path == Stdout {
		f.Name = "standard output"
		f.w = bufio.NewWriterSize(counting{opt.Stdout, f}, fileBuffer)
		return f, nil
	}
	if err := f.open(ctx, path, opt.Owner); err != nil {
		return nil, &writeError{path, plainCause(err)}
	}
	var w io.Writer = f.file
	if f.target == "" {
		f.stream = NewStream(f.file, path)
		f.stop = context.AfterFunc(ctx, f.stream.End)
		w = f.stream
	}
	f.w = bufio.NewWriterSize(counting{w, f}, fileBuffer)
	return f, nil
}

// open opens the file for a path.
func (f *File) open(ctx context.Context, path string, owner *Owner) (err error) {
	if path == "" {
		return errors.New("no file name")
	}
	if fd, ok := descriptor(path); ok {
		f.file, err = duplicate(fd, path)
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.create(path, owner)
	case err != nil:
		return err
	}
	switch info.Mode().Type() {
	case 0:
		return f.create(path, owner)
	case fs.ModeDir:
		return errors.New("is a directory")
	case fs.ModeSymlink:
		return errors.New("is a symbolic link: use the name of the file that it points to")
	case fs.ModeNamedPipe:
		f.file, err = openPipe(ctx, path)
	case fs.ModeDevice | fs.ModeCharDevice:
		f.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	default:
		return errors.New("is not a regular file, a pipe or a character device")
	}
	return err
}

// descriptor returns the file descriptor of this process that a path stands for.
func descriptor(path string) (fd int, ok bool) {
	switch path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, in := strings.CutPrefix(path, dir); in {
			fd, err := strconv.Atoi(number)
			return fd, err == nil && fd >= 0
		}
	}
	return 0, false
}

// duplicate returns a file of its own for a file descriptor, which stays open.
func duplicate(fd int, name string) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), name), nil
}

// How long openPipe waits for a reader.
const (
	readerPatience = 5 * time.Second
	readerPause    = 20 * time.Millisecond
)

// openPipe opens a named pipe, and waits a moment for its reader.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	deadline := time.NewTimer(readerPatience)
	defer deadline.Stop()
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.ENXIO) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return nil, errors.New("no process reads this pipe; start its reader first")
		case <-time.After(readerPause):
		}
	}
}

// create makes a new file beside the one that is to be replaced.
func (f *File) create(path string, owner *Owner) error {
	dir, base := filepath.Split(path)
	if base == "" || base == "." || base == ".." {
		return errors.New("is a directory")
	}
	for n := 0; ; n++ {
		end := fmt.Sprintf(".partial-%d", os.Getpid())
		if n > 0 {
			end += fmt.Sprintf("-%d", n)
		}
		partial := dir + base[:min(len(base), unix.NAME_MAX-len(end))] + end
		file, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrExist) && n < 100 {
			continue
		}
		if err != nil {
			return err
		}
		f.file, f.target = file, path
		if owner != nil {
			if err := file.Chown(owner.UID, owner.GID); err != nil { // as on a file system without owners
				f.owner = fmt.Errorf("cannot change the owner of %s to user %d: %w", path, owner.UID, plainCause(err))
			}
		}
		return nil
	}
}

// counting counts what is written and keeps the first error.
type counting struct {
	w io.Writer
	f *File
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.f.written += int64(n)
	if err != nil {
		c.f.fail(err)
	}
	return n, err
}

// fail keeps the first error.
func (f *File) fail(err error) {
	var named *writeError
	if f.err != nil {
		return
	}
	if f.err = err; !errors.As(err, &named) {
		f.err = &writeError{f.Name, plainCause(err)}
	}
}

// plainCause returns the error below those of package os, which name the file and the operation.
func plainCause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// End bounds how long writing to a pipe waits from now on.
func (f *File) End() {
	if f.stream != nil {
		f.stream.End()
	}
}

// Write implements io.Writer.
func (f *File) Write(b []byte) (int, error) { return f.w.Write(b) }

// OwnerErr returns why a file does not belong to Options.Owner; nil if it does.
func (f *File) OwnerErr() error { return f.owner }

// Err returns the first error of writing, which names the file.
func (f *File) Err() error { return f.err }

// Bytes returns how much has been written. After Commit it is all.
func (f *File) Bytes() int64 { return f.written }

// Partial returns the name of the file as long as it is not complete; empty for what is not a regular file.
func (f *File) Partial() string {
	if f.target == "" {
		return ""
	}
	return f.file.Name()
}

// Commit completes the file: it is on the disk and has its name. After an error it is not there.
func (f *File) Commit() error {
	if f.w.Flush(); f.err != nil || f.target == "" {
		f.Discard()
		return f.err
	}
	f.over = true
	err := f.file.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // a file system that has nothing to synchronize
		err = nil
	}
	if closeErr := f.file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.file.Name(), f.target)
	}
	if err != nil {
		f.fail(err)
		os.Remove(f.file.Name())
	}
	return f.err
}

// Discard removes what was written to a regular file. What went elsewhere stays. After Commit it does nothing.
func (f *File) Discard() {
	if f.over || f.file == nil {
		return
	}
	f.over = true
	if f.target != "" {
		os.Remove(f.file.Name())
	} else if f.stop(); errors.Is(f.err, ErrBlocked) {
		return // a system call still uses it
	}
	f.file.Close()
}
