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

// memory opens the process's memory. The file stays with the address space that the process has now: after an exec it
// leads nowhere.
func (s *Stopped) memory() (*os.File, error) {
	if s.mem != nil {
		return s.mem, nil
	}
	f, err := s.dir.OpenFile(s.live("mem"), os.O_RDWR, 0)
	if err != nil {
		return nil, procError(s.pid, err)
	}
	s.mem = f
	return f, nil
}

// Read fills b from an address of the process, all of it or with an error.
func (s *Stopped) Read(addr uint64, b []byte) error {
	return s.Do(func() error {
		n, err := s.readSome(addr, b)
		if n < len(b) {
			return fmt.Errorf("process %d: reading %d bytes at %#x: %w", s.pid, len(b), addr, memError(err))
		}
		return nil
	})
}

// readSome reads as much of b as there is memory for.
func (s *Stopped) readSome(addr uint64, b []byte) (int, error) {
	f, err := s.memory()
	if err != nil {
		return 0, err
	}
	if int64(addr) < 0 {
		return 0, unix.EFAULT
	}
	return f.ReadAt(b, int64(addr))
}

// memError gives an error of /proc/PID/mem its meaning: where no memory is it fails with EIO, and ends for good with the
// address space.
func memError(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return ErrExited
	case errors.Is(err, unix.EIO):
		return unix.EFAULT
	}
	return err
}

// Write writes to an address of the process, also to memory that the process itself may only read, and checks that it is
// there. What another mapping of the same file shows does not change. A write within one page is done in one step even
// when this process is killed.
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
		// A kernel with proc_mem.force_override=never refuses what a tracer may do by other means.
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
		return fmt.Errorf("process %d: writing at %#x: the memory holds something else afterwards", s.pid, addr)
	}
	return nil
}

// writeWords writes by PTRACE_POKEDATA, word by word.
func (s *Stopped) writeWords(addr uint64, b []byte) error {
	const word = 8
	t, err := s.caller()
	if err != nil {
		return err
	}
	lo := addr &^ (word - 1)
	buf := make([]byte, align(addr+uint64(len(b)), word)-lo)
	if n, err := s.readSome(lo, buf); n < len(buf) {
		return err
	}
	copy(buf[addr-lo:], b)
	for i := 0; i < len(buf); i += word {
		value := binary.NativeEndian.Uint64(buf[i:])
		err := request(unix.PTRACE_POKEDATA, t.TID, uintptr(lo)+uintptr(i), uintptr(value))
		if err != nil {
			return err
		}
	}
	return nil
}

var _ [8]byte = [unsafe.Sizeof(uintptr(0))]byte{} // PTRACE_POKEDATA writes a word of this size
