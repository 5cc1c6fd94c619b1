package output

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// blocked is a writer that accepts some bytes, then nothing until it is released.
type blocked struct {
	room    int
	release chan struct{}
	mu      sync.Mutex
	got     []byte
}

func (b *blocked) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		<-b.release
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, p...)
	return len(p), nil
}

func TestStream(t *testing.T) {
	w := &blocked{room: 10, release: make(chan struct{})}
	s := NewStream(w, "stdout")
	s.patience = 50 * time.Millisecond
	if n, err := s.Write([]byte("0123456789")); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	done := make(chan error, 1)
	piece := []byte("abc")
	go func() {
		_, err := s.Write(piece)
		piece[0] = 'X' // the Stream has a copy
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it does not wait for its reader: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	s.End()
	if err := <-done; !errors.Is(err, ErrBlocked) || !strings.HasPrefix(err.Error(), "cannot write stdout: ") {
		t.Error(err)
	}
	if _, err := s.Write([]byte("later")); !errors.Is(err, ErrBlocked) {
		t.Error(err)
	}
	close(w.release)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		got := string(w.got)
		w.mu.Unlock()
		if got == "0123456789abc" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q was written", got)
		}
	}
}

// slow accepts a piece now and then.
type slow struct{ n int }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	s.n += len(p)
	return len(p), nil
}

// TestStreamSlow writes to a reader that is slow: it gets all.
func TestStreamSlow(t *testing.T) {
	w := &slow{}
	s := NewStream(w, "stdout")
	s.patience = time.Minute // the machine may stall
	s.End()
	if n, err := s.Write(make([]byte, 20*streamPiece)); n != 20*streamPiece || err != nil || w.n != n {
		t.Error(n, w.n, err)
	}
}

func create(t *testing.T, path string) *File {
	t.Helper()
	f, err := Create(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	for _, name := range []string{"out", strings.Repeat("n", unix.NAME_MAX)} {
		path := filepath.Join(dir, name)
		for i, text := range []string{"first", "second"} {
			f := create(t, path)
			io.WriteString(f, text)
			if old, err := os.ReadFile(path); i == 0 && err == nil || i == 1 && string(old) != "first" {
				t.Errorf("before it is complete there is %q, %v", old, err)
			}
			if !strings.Contains(f.Partial(), ".partial-") || filepath.Dir(f.Partial()) != dir {
				t.Errorf("it is written as %s", f.Partial())
			}
			if err := f.Commit(); err != nil || f.Bytes() != int64(len(text)) {
				t.Errorf("%d bytes, %v", f.Bytes(), err)
			}
			f.Discard() // nothing
			if got := content(t, path); got != text {
				t.Errorf("%q is written, want %q", got, text)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			os.Chmod(path, 0o666) // the next one does not inherit that
		}
		f := create(t, path)
		io.WriteString(f, "third")
		f.Discard()
		if content(t, path) != "second" {
			t.Error("what was discarded is there")
		}
	}
	if list := names(t, dir); len(list) != 2 {
		t.Errorf("%v is left behind", list)
	}
}

// TestFileTwice writes the same file twice at a time: the later one wins, and both are whole.
func TestFileTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	a, b := create(t, path), create(t, path)
	io.WriteString(a, "a")
	io.WriteString(b, "b")
	if err := errors.Join(b.Commit(), a.Commit()); err != nil || content(t, path) != "a" {
		t.Errorf("%q, %v", content(t, path), err)
	}
}

func TestFileOwner(t *testing.T) {
	env := map[string]string{"SUDO_UID": "65534", "SUDO_GID": "65533"}
	owner := SudoUser(func(name string) string { return env[name] })
	if os.Geteuid() != 0 {
		if owner != nil {
			t.Error("sudo's variables count for a user who is not root")
		}
		return
	}
	if none := SudoUser(func(string) string { return "" }); none != nil {
		t.Errorf("owner %v without sudo", none)
	}
	path := filepath.Join(t.TempDir(), "out")
	f, err := Create(t.Context(), path, Options{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Uid != 65534 || st.Gid != 65533 || st.Mode&0o777 != 0o600 {
		t.Errorf("owner %d:%d, mode %o, %v", st.Uid, st.Gid, st.Mode, err)
	}
}

func TestFileRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	os.WriteFile(path("victim"), []byte("precious"), 0o644)
	for name, to := range map[string]string{"link": "victim", "dangling": "new", "device": "/dev/null"} {
		if err := os.Symlink(to, path(name)); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: path("socket")}); err != nil {
		t.Fatal(err)
	}
	before := len(names(t, dir))
	for name, want := range map[string]string{
		path("link"): "symbolic link", path("dangling"): "symbolic link", path("device"): "symbolic link",
		path("socket"): "is not a regular file", dir: "is a directory", path("no/such"): "no such file", dir + "/new/": "is a directory",
		"/dev/null/x": "not a directory", "": "no file name", "/dev/fd/12345": "bad file descriptor", path("victim/x"): "not a directory",
	} {
		f, err := Create(t.Context(), name, Options{})
		if err == nil {
			f.Discard()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "cannot write "+name+": ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	if list := names(t, dir); len(list) != before || content(t, path("victim")) != "precious" {
		t.Errorf("%v is there", list)
	}
}

// TestFileDirect writes to what is no regular file.
func TestFileDirect(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	regular, err := os.Create(filepath.Join(t.TempDir(), "shared"))
	if err != nil {
		t.Fatal(err)
	}
	defer regular.Close()
	regular.WriteString("before ")
	name := func(f *os.File) string { return "/dev/fd/" + strconv.Itoa(int(f.Fd())) }
	for _, path := range []string{"/dev/null", name(w), name(regular), fifo} {
		f := create(t, path)
		if f.Partial() != "" {
			t.Errorf("%s is written as %s", path, f.Partial())
		}
		io.WriteString(f, "text")
		if err := f.Commit(); err != nil || f.Bytes() != 4 {
			t.Errorf("%s: %d bytes, %v", path, f.Bytes(), err)
		}
	}
	w.Close()
	for _, from := range []*os.File{r, reader} {
		if got, err := io.ReadAll(from); string(got) != "text" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got := content(t, regular.Name()); got != "before text" { // behind what is there
		t.Errorf("%q", got)
	}
	if info, err := os.Lstat(fifo); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is now %v, %v", info, err)
	}
}

// TestPipeWithoutReader waits a moment for the reader of a pipe, until the context is done.
func TestPipeWithoutReader(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Create(ctx, fifo, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Create(t.Context(), fifo, Options{}); err == nil || !strings.Contains(err.Error(), "no process reads this pipe; start its reader first") {
		t.Error(err)
	}
	opened := make(chan *os.File, 1)
	time.AfterFunc(100*time.Millisecond, func() {
		r, _ := os.Open(fifo)
		opened <- r
	})
	f := create(t, fifo)
	r := <-opened
	defer r.Close()
	// The reader goes away: an error. It is blocked and the command ends: an error, too.
	ended, end := context.WithCancel(t.Context())
	blocked, err := Create(ended, fifo, Options{})
	if err != nil {
		t.Fatal(err)
	}
	blocked.stream.patience = 50 * time.Millisecond
	time.AfterFunc(100*time.Millisecond, end)
	blocked.Write(make([]byte, 1<<20))
	if err := blocked.Commit(); !errors.Is(err, ErrBlocked) || !strings.HasPrefix(err.Error(), "cannot write "+fifo) {
		t.Error(err)
	}
	r.Close()
	io.WriteString(f, "text")
	if err := f.Commit(); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFullDisk has a disk without room, as a device and as a limit of the process: the error is one, and nothing is left.
func TestFullDisk(t *testing.T) {
	for _, path := range []string{"/dev/full", Stdout} {
		f, err := Create(t.Context(), path, Options{Stdout: full{}})
		if err != nil {
			t.Fatal(err)
		}
		f.Write(make([]byte, 2*fileBuffer))
		if err := f.Commit(); !errors.Is(err, syscall.ENOSPC) || err.Error() != "cannot write "+f.Name+": no space left on device" {
			t.Errorf("%s: %v", path, err)
		}
	}
	dir := t.TempDir()
	f := create(t, filepath.Join(dir, "out"))
	f.file.Close() // what is written fails from now on
	io.WriteString(f, "lost")
	if err := f.Commit(); err == nil {
		t.Error("no error")
	}
	if list := names(t, dir); len(list) != 0 {
		t.Errorf("%v is left behind", list)
	}
}
