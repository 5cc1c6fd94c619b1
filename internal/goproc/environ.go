package goproc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Environ returns the environment with which a process has started its program, at most limit bytes of it: variables that end with a byte
// 0. The process can have written anything there since. Only the owner of a process may open its file environ; CAP_SYS_PTRACE permits
// reading the same memory.
func Environ(pid int, limit int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if errors.Is(err, fs.ErrPermission) {
		return environMemory(pid, limit)
	}
	if err != nil {
		return nil, procError(pid, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return nil, procError(pid, err)
	}
	return b, nil
}

// environMemory reads the environment from the memory of the process.
func environMemory(pid int, limit int) ([]byte, error) {
	st, err := readStat(pid)
	if err != nil {
		return nil, err
	}
	if st.environ.Size == 0 {
		return nil, fmt.Errorf("process %d: %w", pid, ErrPermission)
	}
	b := make([]byte, min(st.environ.Size, uint64(limit)))
	return b, memory{pid}.read(b, st.environ.Start)
}
