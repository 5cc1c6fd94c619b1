package ptrace

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Shared is memory that is mapped both in the target and in this process. This process allocates all of its pages, so
// the target never faults on it, and its size is charged to this process. Forked children of the target share it as
// well.
type Shared struct {
	Addr uint64 // in the target
	Mem  []byte // here
}

// sharedSeals fix the size, so that no page can be removed while it is mapped.
const sharedSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// MapShared maps memory that is shared with this process. size is rounded up to whole pages. The address must be one
// that Gap returned. The error wraps ErrBusy if the process has mapped something there since. fill is called before the
// target maps the memory and writes its initial contents. The target keeps no file descriptor. Shared.Close unmaps the
// memory in this process, and Unmap in the target.
func (s *Stopped) MapShared(addr uint64, size int, fill func(mem []byte) error) (*Shared, error) {
	var m *Shared
	err := s.Do(func() error {
		var err error
		m, err = s.mapShared(addr, int(align(uint64(size), uint64(os.Getpagesize()))), fill)
		return err
	})
	return m, err
}

func (s *Stopped) mapShared(addr uint64, size int, fill func(mem []byte) error) (_ *Shared, err error) {
	if _, err := s.enter(); err != nil {
		return nil, err
	}
	if err := s.checkMapping(); err != nil {
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
	if err = fill(mem); err == nil {
		err = s.mapAt(addr, uint64(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, fd)
	}
	if err != nil {
		return nil, both(err, unix.Munmap(mem))
	}
	return &Shared{Addr: addr, Mem: mem}, nil
}

// checkMapping returns an error if a seccomp filter does not permit all calls of a mapping, before the first of them is
// made.
func (s *Stopped) checkMapping() error {
	t, err := s.caller()
	if err != nil {
		return err
	}
	if err := s.mayCall(t); err != nil {
		return err
	}
	return s.checkCalls(t, mappingCalls...)
}

// makeMemfd creates a file in memory (memfd_create) and returns its descriptor in the process.
func (s *Stopped) makeMemfd() (uint64, error) {
	flags := uint64(unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING)
	fd, err := s.Call(unix.SYS_MEMFD_CREATE, s.foothold.text(), flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = s.Call(unix.SYS_MEMFD_CREATE, s.foothold.text(), flags)
	}
	if err != nil {
		return 0, s.refusedCall("creating shared memory in it", err)
	}
	return fd, nil
}

// openShared opens the target's file in this process, sets its size and maps it.
func (s *Stopped) openShared(fd uint64, size int) ([]byte, error) {
	f, err := s.openFile(int(fd))
	if err != nil {
		return nil, err
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

// openFile opens a file that makeMemfd has created in the target.
func (s *Stopped) openFile(fd int) (*os.File, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s/%d", s.pid, s.live("fd"), fd), os.O_RDWR, 0)
	if errors.Is(err, unix.EACCES) { // only the owner may do this; CAP_SYS_PTRACE permits the same by a system call
		f, err = s.duplicate(fd)
	}
	if err != nil {
		return nil, procError(s.pid, err)
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err == nil && !strings.HasPrefix(name, sharedName) {
		err = fmt.Errorf("its file descriptor %d is %q, not the expected file", fd, name)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("process %d: %w", s.pid, err)
	}
	return f, nil
}

// duplicate duplicates a file of the target with pidfd_getfd (Linux 5.6).
func (s *Stopped) duplicate(fd int) (*os.File, error) {
	pidfd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	own, err := unix.PidfdGetfd(pidfd, fd, 0)
	if errors.Is(err, unix.ENOSYS) {
		return nil, fmt.Errorf("%w: opening its files requires CAP_DAC_READ_SEARCH or Linux 5.6", ErrPermission)
	}
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			return nil, fmt.Errorf("%w: pidfd_getfd", ErrPermission)
		}
		return nil, fmt.Errorf("pidfd_getfd: %w", err)
	}
	return os.NewFile(uintptr(own), "memfd"), nil
}

// Close unmaps the memory in this process. Mem must not be used afterwards.
func (m *Shared) Close() error {
	mem := m.Mem
	m.Mem = nil
	return unix.Munmap(mem)
}
