package ptrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory opens the memory of the process. The file refers to the current address space of the process: after an exec it
// can no longer be read. The result is nil if only the owner may open the file; in that case CAP_SYS_PTRACE permits
// access by system calls.
func (s *Stopped) memory() (*os.File, error) {
	if s.mem != nil || s.byCalls {
		return s.mem, nil
	}
	f, err := s.dir.OpenFile(s.live("mem"), os.O_RDWR, 0)
	if errors.Is(err, unix.EACCES) {
		s.byCalls, s.poke = true, true
		return nil, nil
	}
	if err != nil {
		return nil, procError(s.pid, err)
	}
	s.mem = f
	return f, nil
}

// Read reads len(b) bytes from an address of the process. It returns an error if it cannot read all of them.
func (s *Stopped) Read(addr uint64, b []byte) error {
	return s.Do(func() error {
		n, err := s.readSome(addr, b)
		if n < len(b) {
			return fmt.Errorf("process %d: reading %d bytes at %#x: %w", s.pid, len(b), addr, memError(err))
		}
		return nil
	})
}

// readSome reads up to len(b) bytes, up to the end of the mapped memory.
func (s *Stopped) readSome(addr uint64, b []byte) (int, error) {
	f, err := s.memory()
	if err != nil {
		return 0, err
	}
	if int64(addr) < 0 {
		return 0, unix.EFAULT
	}
	if f == nil {
		return s.readByCalls(addr, b)
	}
	return f.ReadAt(b, int64(addr))
}

// readByCalls reads with process_vm_readv, and with PTRACE_PEEKDATA for memory that the process itself may not read.
func (s *Stopped) readByCalls(addr uint64, b []byte) (int, error) {
	t, err := s.caller()
	if err != nil {
		return 0, err
	}
	n, err := transfer(unix.SYS_PROCESS_VM_READV, t.TID, addr, b)
	if n == len(b) || err != nil && !errors.Is(err, unix.EFAULT) {
		return n, err
	}
	for n < len(b) {
		at := addr + uint64(n)
		var buf [word]byte
		if err := requestAt(unix.PTRACE_PEEKDATA, t.TID, uintptr(at&^(word-1)), unsafe.Pointer(&buf[0])); err != nil {
			return n, err
		}
		n += copy(b[n:], buf[at%word:])
	}
	return n, nil
}

// transfer copies between b and an address of a process, by process_vm_readv or process_vm_writev, and returns how many
// bytes it has copied.
func transfer(call uintptr, pid int, addr uint64, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	local, remote := unix.Iovec{Base: &b[0]}, unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
	local.SetLen(len(b))
	n, _, errno := unix.RawSyscall6(call, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// ReadMemory reads len(b) bytes from an address of a running process. It only requires permission to trace the process.
func ReadMemory(pid int, addr uint64, b []byte) error {
	n, err := transfer(unix.SYS_PROCESS_VM_READV, pid, addr, b)
	switch {
	case errors.Is(err, unix.EPERM):
		err = ErrPermission
	case err == nil && n < len(b):
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("process %d: reading %d bytes at %#x: %w", pid, len(b), addr, memError(err))
	}
	return nil
}

// memError converts an error of reading or writing memory to an error of this package. /proc/PID/mem fails with EIO for
// unmapped addresses, and returns end of file once the address space no longer exists.
func memError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ESRCH):
		return ErrExited
	case errors.Is(err, unix.EIO):
		return unix.EFAULT
	}
	return err
}

// Write writes b to an address of the process, even if the process itself may only read the memory, and verifies the
// result. Other mappings of the same file do not change. A write within one page is atomic even if this process is
// killed.
func (s *Stopped) Write(addr uint64, b []byte) error {
	return s.Do(func() error { return s.write(addr, b) })
}

func (s *Stopped) write(addr uint64, b []byte) error {
	f, err := s.memory()
	if err != nil {
		return err
	}
	if int64(addr) < 0 {
		return fmt.Errorf("process %d: writing at %#x: %w", s.pid, addr, unix.EFAULT)
	}
	if !s.poke {
		_, err = f.WriteAt(b, int64(addr))
		// A kernel with proc_mem.force_override=never refuses this write. A tracer may do it by other means.
		s.poke = errors.Is(err, unix.EIO) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	}
	if s.poke {
		err = s.writeWords(addr, b)
	}
	if err != nil {
		return fmt.Errorf("process %d: writing %d bytes at %#x: %w", s.pid, len(b), addr, memError(err))
	}
	check := make([]byte, len(b))
	if err := s.Read(addr, check); err != nil {
		return err
	}
	if !bytes.Equal(b, check) {
		return fmt.Errorf("process %d: writing at %#x: the memory has other contents after the write", s.pid, addr)
	}
	return nil
}

const word = 8 // number of bytes that PTRACE_PEEKDATA and PTRACE_POKEDATA transfer

// writeWords writes with PTRACE_POKEDATA, and with process_vm_writev to memory that the process itself may write. The
// first word is written in one step, so that a jump is either complete or absent if the tracer is killed.
func (s *Stopped) writeWords(addr uint64, b []byte) error {
	t, err := s.caller()
	if err != nil {
		return err
	}
	if len(b) > word {
		n, err := transfer(unix.SYS_PROCESS_VM_WRITEV, t.TID, addr, b)
		if err != nil && !errors.Is(err, unix.EFAULT) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			return err
		}
		addr, b = addr+uint64(n), b[n:]
	}
	for len(b) > 0 {
		var buf [word]byte
		n := min(len(b), word)
		at := addr
		if n < word { // the bytes after it are preserved, or those before it at the end of a page
			if at%uint64(os.Getpagesize()) > uint64(os.Getpagesize()-word) {
				at = addr + uint64(n) - word
			}
			if got, err := s.readSome(at, buf[:]); got < word {
				return err
			}
		}
		copy(buf[addr-at:], b[:n])
		if err := request(unix.PTRACE_POKEDATA, t.TID, uintptr(at), uintptr(binary.NativeEndian.Uint64(buf[:]))); err != nil {
			return err
		}
		addr, b = addr+uint64(n), b[n:]
	}
	return nil
}

var _ [word]byte = [unsafe.Sizeof(uintptr(0))]byte{} // PTRACE_POKEDATA writes a word of this size
