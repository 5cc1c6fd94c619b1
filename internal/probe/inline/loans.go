package inline

import (
	"errors"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// mapLoans maps the memory that the probes lend to the process, if they do. A killed engine leaves it there: structures of the program
// may refer to it.
func (in *installation) mapLoans(s *ptrace.Stopped, program *Program) (err error) {
	if !in.lends || in.loans != 0 {
		return nil
	}
	if in.loans, err = s.MapPrivate(csrc.LoansSize); err != nil {
		return err
	}
	program.Lend(in.loans)
	return nil
}

// unmapLoans removes this memory, unless some of it is still lent. Nothing in the process takes loans any more.
func (in *installation) unmapLoans(s *ptrace.Stopped) error {
	if in.loans == 0 {
		return nil
	}
	out, err := loansOut(in.loans, s.Read)
	if in.lent = out; err != nil || out {
		return err
	}
	if err := s.Unmap(in.loans, csrc.LoansSize); err != nil {
		return err
	}
	in.loans = 0
	return nil
}

// loansOut reports whether some of the memory at an address is lent.
func loansOut(at uint64, read func(addr uint64, b []byte) error) (bool, error) {
	var l csrc.Loans
	if err := read(at, unsafe.Slice((*byte)(unsafe.Pointer(&l)), unsafe.Sizeof(l))); err != nil {
		return false, err
	}
	out := l.Large
	for _, word := range l.Small {
		out |= word
	}
	return out != 0, nil
}

const (
	loansReturn = time.Second // the time that messages have to be sent before the probes are removed
	pauseLoans  = 2 * time.Millisecond
)

// awaitLoans waits, while the probes still run, until the program has given back what it has borrowed, so that the memory can be removed.
func (e *Engine) awaitLoans() {
	if e.in == nil || e.in.loans == 0 || e.replaced.Load() {
		return
	}
	e.region.CloseLoans()
	read := func(addr uint64, b []byte) error { return ptrace.ReadMemory(e.plan.PID, addr, b) }
	for end := time.Now().Add(loansReturn); time.Now().Before(end); time.Sleep(pauseLoans) {
		out, err := loansOut(e.in.loans, read)
		if errors.Is(err, ptrace.ErrPermission) || err == nil && out {
			continue
		}
		return
	}
}
