package ptrace

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Shared is memory that a process and this one both have mapped. It belongs to this process, which made room for it and
// can fill it all: the target never faults on it, and its size is charged to this one. Children that the target forks
// share it.
type Shared struct {
	Addr uint64 // in the target
	Mem  []byte // here
}

// sharedSeals fix the size: nobody can take pages away from under a mapping.
const sharedSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// MapShared maps memory that is shared with this process. size is rounded up to whole pages. The target keeps no file
// descriptor. Close gives up this process's side; Unmap the target's.
func (s *Stopped) MapShared(in Window, size int) (*Shared, error) {
	var m *Shared
	err := s.Do(func() error {
		var err error
		m, err = s.mapShared(in, int(align(uint64(size), uint64(os.Getpagesize()))))
		return err
	})
	return m, err
}

func (s *Stopped) mapShared(in Window, size int) (_ *Shared, err error) {
	if _, err := s.enter(); err != nil {
		return nil, err
	}
	fd, err := s.makeMemfd()
	if err != nil {
		return nil, err
	}
	defer func() {
		if _, closeErr := s.Call(unix.SYS_CLOSE, fd); closeErr != nil {
			err = both(err, s.refusedCall("closing a file in it", closeErr))
		}
	}()
	mem, err := s.openShared(fd, size)
	if err != nil {
		return nil, err
	}
	addr, err := s.mapAt(in, uint64(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, fd)
	if err != nil {
		return nil, both(err, unix.Munmap(mem))
	}
	return &Shared{Addr: addr, Mem: mem}, nil
}

// makeMemfd makes a file in memory and returns its descriptor in the process.
func (s *Stopped) makeMemfd() (uint64, error) {
	flags := uint64(unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING)
	fd, err := s.Call(unix.SYS_MEMFD_CREATE, s.foothold.text(), flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = s.Call(unix.SYS_MEMFD_CREATE, s.foothold.text(), flags)
	}
	if err != nil {
		return 0, s.refusedCall("making shared memory in it", err)
	}
	return fd, nil
}

// openShared opens the target's file from here, gives it its size and maps it.
func (s *Stopped) openShared(fd uint64, size int) ([]byte, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", s.pid, fd)
	name, err := os.Readlink(path)
	if err != nil {
		return nil, procError(s.pid, err)
	}
	if !strings.HasPrefix(name, "/memfd:"+Name) {
		return nil, fmt.Errorf("process %d: its file %d is %q, not what was made", s.pid, fd, name)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, procError(s.pid, err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size)); err != nil {
		return nil, fmt.Errorf("process %d: %d KiB of shared memory: %w", s.pid, size>>10, err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, sharedSeals); err != nil {
		return nil, fmt.Errorf("process %d: fixing the size of shared memory: %w", s.pid, err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d KiB of shared memory: %w", size>>10, err)
	}
	return mem, nil
}

// Close unmaps the memory here. Mem must not be used any more.
func (m *Shared) Close() error {
	mem := m.Mem
	m.Mem = nil
	return unix.Munmap(mem)
}
