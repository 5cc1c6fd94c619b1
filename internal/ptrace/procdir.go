package ptrace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
)

// openProc opens the /proc directory of a process.
func openProc(pid int) (*os.Root, error) {
	root, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return nil, procError(pid, err)
	}
	return root, nil
}

// procError gives an error of /proc its meaning.
func procError(pid int, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d: %w", pid, ErrExited)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d: %w", pid, ErrPermission)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// statusField returns a line of a status file by its name; empty when there is none, or the file cannot be read.
func statusField(dir *os.Root, file, name string) string {
	v, _ := readStatusField(dir, file, name)
	return v
}

// readStatusField is statusField with the error of reading the file.
func readStatusField(dir *os.Root, file, name string) (string, error) {
	b, err := dir.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimSpace(v)), nil
		}
	}
	return "", nil
}

// statFields returns the fields of a thread's stat file that follow its name, the state first.
func statFields(dir *os.Root, tid int) []string {
	b, err := dir.ReadFile(fmt.Sprintf("task/%d/stat", tid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// taskState returns the state of a thread as a letter: R runs, S sleeps, Z has ended; 0 when there is none.
func taskState(dir *os.Root, tid int) byte {
	if f := statFields(dir, tid); len(f) > 0 {
		return f[0][0]
	}
	return 0
}

// endedTask reports whether a thread has ended. Until its tracer and its parent have taken note, it stays as a zombie. One
// whose state cannot be read for another reason has not.
func endedTask(dir *os.Root, tid int) bool {
	b, err := dir.ReadFile(fmt.Sprintf("task/%d/stat", tid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return len(f) == 0 || f[0] == "Z" || f[0] == "X"
}

// live returns the name of a file in the directory of a stopped thread: those of the process itself are empty when its
// first thread has ended before the others.
func (s *Stopped) live(name string) string {
	for tid := range s.threads {
		return fmt.Sprintf("task/%d/%s", tid, name)
	}
	return name
}

// Maps returns the process's mappings.
func (s *Stopped) Maps() ([]procmap.Mapping, error) {
	var maps []procmap.Mapping
	err := s.Do(func() error {
		b, err := s.dir.ReadFile(s.live("maps"))
		if err != nil {
			return procError(s.pid, err)
		}
		if len(b) == 0 {
			return fmt.Errorf("process %d: %w", s.pid, ErrExited)
		}
		maps, err = procmap.Parse(b)
		return err
	})
	return maps, err
}
