package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory reads the memory of another process without stopping it. Reads are not atomic: the process may change the memory
// during a read.
type memory struct{ pid int }

// span is a range of memory to read: buf is filled from addr. After a read, ok reports whether it succeeded.
type span struct {
	addr uint64
	buf  []byte
	ok   bool
}

const maxIovecs = 1024 // UIO_MAXIOV

// read fills p from addr, all of it or with an error.
func (m memory) read(p []byte, addr uint64) error {
	if len(p) == 0 {
		return nil
	}
	s := []span{{addr: addr, buf: p}}
	if err := m.readSpans(s); err != nil {
		return err
	}
	if !s[0].ok {
		return fmt.Errorf("process %d: no readable memory at %#x+%d", m.pid, addr, len(p))
	}
	return nil
}

// ReadAt is read as an io.ReaderAt whose offsets are addresses.
func (m memory) ReadAt(p []byte, off int64) (int, error) {
	if err := m.read(p, uint64(off)); err != nil {
		return 0, err
	}
	return len(p), nil
}

var _ io.ReaderAt = memory{}

// u64 reads one word.
func (m memory) u64(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.read(b[:], addr)
	return binary.LittleEndian.Uint64(b[:]), err
}

// readSpans reads many spans with few system calls, in order: span i is copied before span i+1. A span that
// is not readable has ok false. An error concerns the process as a whole.
func (m memory) readSpans(spans []span) error {
	local := make([]unix.Iovec, 0, min(len(spans), maxIovecs))
	remote := make([]unix.RemoteIovec, 0, min(len(spans), maxIovecs))
	for len(spans) > 0 {
		n := min(len(spans), maxIovecs)
		local, remote = local[:0], remote[:0]
		for i := range spans[:n] {
			s := &spans[i]
			s.ok = false
			if len(s.buf) == 0 {
				continue
			}
			v := unix.Iovec{Base: &s.buf[0]}
			v.SetLen(len(s.buf))
			local = append(local, v)
			remote = append(remote, unix.RemoteIovec{Base: uintptr(s.addr), Len: len(s.buf)})
		}
		got, err := m.readv(local, remote)
		if err != nil && !errors.Is(err, unix.EFAULT) {
			return m.wrap(err)
		}
		// A fault ends the copy: the spans before it are complete. Continue after the span that faulted.
		done := markRead(spans[:n], max(got, 0))
		if done < n {
			done++
		}
		spans = spans[done:]
	}
	return nil
}

// readv calls process_vm_readv and returns the number of bytes copied. It takes a fraction of a millisecond at most, and
// the raw system call hides it from the Go scheduler. Otherwise the scheduler would wake another thread each time, which
// would find nothing to do and take time from the target.
func (m memory) readv(local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	if len(local) == 0 {
		return 0, nil
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(m.pid), uintptr(unsafe.Pointer(&local[0])), uintptr(len(local)),
		uintptr(unsafe.Pointer(&remote[0])), uintptr(len(remote)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// markRead sets ok for the leading spans that n bytes fill and returns their number.
func markRead(spans []span, n int) int {
	for i := range spans {
		s := &spans[i]
		if n < len(s.buf) {
			return i
		}
		s.ok, n = true, n-len(s.buf)
	}
	return len(spans)
}

// wrap converts an error of process_vm_readv to an error of this package.
func (m memory) wrap(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d: %w", m.pid, ErrExited)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("process %d: reading its memory: %w", m.pid, ErrPermission)
	}
	return fmt.Errorf("process %d: reading its memory: %w", m.pid, err)
}
