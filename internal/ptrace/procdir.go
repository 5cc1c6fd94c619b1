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

// procError converts an error of /proc to an error of this package.
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

// statusField returns the value of a line of a status file. It is empty if there is no such line or the file cannot be
// read.
func statusField(dir *os.Root, file, name string) string {
	v, _ := readStatusField(dir, file, name)
	return v
}

// readStatusField is like statusField, but returns the error of reading the file.
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

// statFields returns the fields of a thread's stat file that follow its name. The first one is the state.
func statFields(dir *os.Root, tid int) []string {
	b, err := dir.ReadFile(fmt.Sprintf("task/%d/stat", tid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// taskState returns the state of a thread as a letter: R for running, S for sleeping, Z for a zombie. It is 0 if the
// thread does not exist.
func taskState(dir *os.Root, tid int) byte {
	if f := statFields(dir, tid); len(f) > 0 {
		return f[0][0]
	}
	return 0
}

// endedTask reports whether a thread has ended. It remains as a zombie until its tracer and its parent have waited for
// it. A thread whose state cannot be read for another reason has not ended.
func endedTask(dir *os.Root, tid int) bool {
	b, err := dir.ReadFile(fmt.Sprintf("task/%d/stat", tid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return len(f) == 0 || f[0] == "Z" || f[0] == "X"
}

// live returns the path of a file in the directory of a stopped thread. The files of the process itself are empty if
// its first thread has ended before the others.
func (s *Stopped) live(name string) string {
	for tid := range s.threads {
		return fmt.Sprintf("task/%d/%s", tid, name)
	}
	return name
}

// Maps returns the mappings of the process.
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
