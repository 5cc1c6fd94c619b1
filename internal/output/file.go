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

// Stdout is the name for standard output.
const Stdout = "-"

// A File is a file that is being written, or standard output.
//
// A regular file gets its name when it is complete. Until then its name is NAME.partial-PID. So after a failure the
// previous file still exists, and if Loupe is killed the partial file remains. The file belongs to this user, or with
// sudo to the user who ran sudo, and only its owner may read it. Symbolic links are rejected, because their targets may
// belong to other users.
//
// Pipes, terminals and devices are written directly.
type File struct {
	Name string // for messages: the path, or "standard output"

	w       *bufio.Writer
	file    *os.File // nil for standard output
	stream  *Stream  // used to write the file; nil for a regular file
	stop    func() bool
	target  string // final name of the file; empty if it is not renamed
	written int64
	err     error // error of the first failed write
	owner   error // the reason why the owner could not be set
	over    bool  // Commit or Discard was called
}

const fileBuffer = 128 << 10

// Options configures Create.
type Options struct {
	Stdout io.Writer // the writer for the path Stdout
	Owner  *Owner    // owner of regular files; nil for this user
}

// An Owner is the owner of a file.
type Owner struct{ UID, GID int }

// SudoUser returns the user who ran sudo, from the environment variables set by sudo. It is nil if Loupe was not
// started by sudo.
func SudoUser(getenv func(string) string) *Owner {
	uid, uidErr := strconv.Atoi(getenv("SUDO_UID"))
	gid, gidErr := strconv.Atoi(getenv("SUDO_GID"))
	if os.Geteuid() != 0 || uidErr != nil || gidErr != nil {
		return nil
	}
	return &Owner{uid, gid}
}

// Create creates a file. The caller must call Commit or Discard. The context ends the wait for a reader of a named
// pipe, and limits how long writing to a pipe waits.
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

// duplicate returns a file with a duplicate of a file descriptor, which remains open.
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

// create creates a new file in the directory of the file that it will replace.
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

// counting counts the bytes written and keeps the first error.
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

// plainCause returns the cause of an error of package os, without the file and the operation.
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

// End limits how long writing to a pipe waits from now on.
func (f *File) End() {
	if f.stream != nil {
		f.stream.End()
	}
}

// Write implements io.Writer.
func (f *File) Write(b []byte) (int, error) { return f.w.Write(b) }

// OwnerErr returns the reason why the file does not belong to Options.Owner, or nil if it does.
func (f *File) OwnerErr() error { return f.owner }

// Err returns the first error of writing, which contains the name of the file.
func (f *File) Err() error { return f.err }

// Bytes returns the number of bytes written so far. After Commit it is the size of the output.
func (f *File) Bytes() int64 { return f.written }

// Partial returns the name of the incomplete file. It is empty if the output is not a regular file.
func (f *File) Partial() string {
	if f.target == "" {
		return ""
	}
	return f.file.Name()
}

// Commit completes the file: it syncs the file to disk and gives it its name. After an error the partial file is
// removed.
func (f *File) Commit() error {
	if f.w.Flush(); f.err != nil || f.target == "" {
		f.Discard()
		return f.err
	}
	f.over = true
	err := f.file.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // a file system that does not support fsync
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

// Discard removes a regular file. It does not affect other outputs. After Commit it does nothing.
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
