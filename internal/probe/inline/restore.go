package inline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// restoring returns the edits that restore the original code, given the code in memory now. A breakpoint of
// another tracer stays: when it is removed, the kernel writes the byte of the file, or the first byte of the jump, which is
// the same. restoring fails if the memory has any other contents.
func (in *installation) restoring(s *ptrace.Stopped) (back []ptrace.Edit, err error) {
	for _, e := range in.edits {
		now := make([]byte, len(e.New))
		if err := s.Read(e.Addr, now); err != nil {
			return nil, err
		}
		old, _, ok := restored(runtime.GOARCH, e, now)
		if !ok {
			return nil, fmt.Errorf("the code at %#x is %x, neither %x nor %x: the program or another tool has changed it", e.Addr, now, e.New, e.Old)
		}
		if !bytes.Equal(now, old) {
			back = append(back, ptrace.Edit{Addr: e.Addr, Old: now, New: old})
		}
	}
	return back, nil
}

// restored returns the bytes to write at the place of an edit, and whether a foreign breakpoint stays there. ok
// is false if neither the edit nor a foreign breakpoint explains the bytes there now.
func restored(arch string, e ptrace.Edit, now []byte) (old []byte, breakpoint, ok bool) {
	unit, isBreakpoint := 1, func(b []byte) bool { return b[0] == 0xCC }
	if arch == "arm64" {
		unit, isBreakpoint = 4, func(b []byte) bool { return binary.LittleEndian.Uint32(b)&0xFFE0001F == 0xD4200000 }
	}
	old = bytes.Clone(e.Old)
	for i := 0; i+unit <= len(now); i += unit {
		at := now[i : i+unit]
		switch {
		case bytes.Equal(at, e.New[i:i+unit]), bytes.Equal(at, e.Old[i:i+unit]):
		case isBreakpoint(at):
			copy(old[i:], at)
			breakpoint = true
		default:
			return nil, false, false
		}
	}
	return old, breakpoint, true
}

// errForeign says that another tracer has a breakpoint in code that must be replaced.
var errForeign = errors.New("another tracer has a breakpoint")

// checkForeign returns an error that names the places of edits whose code was already changed by others.
func (in *installation) checkForeign(s *ptrace.Stopped) error {
	var names []string
	for i, e := range in.edits {
		now := make([]byte, len(e.Old))
		if err := s.Read(e.Addr, now); err != nil {
			return err
		}
		if bytes.Equal(now, e.Old) {
			continue
		}
		_, breakpoint, ok := restored(runtime.GOARCH, ptrace.Edit{Old: e.Old, New: e.Old}, now)
		if !ok || !breakpoint {
			return fmt.Errorf("process %d: %w: the code of %s is %x in memory and %x in the file: the program or another tool has changed it",
				in.pid, ptrace.ErrUnsupported, in.names[i], now, e.Old)
		}
		names = append(names, in.names[i])
	}
	if names == nil {
		return nil
	}
	more := ""
	if n := len(names) - 3; n > 0 {
		names, more = names[:3], " and "+english.Count(n, "more place")
	}
	return fmt.Errorf("process %d: %w: %w at %s%s: stop that bpftrace, perf or debugger, or use --engine uprobe (loupe doctor %d lists all breakpoints)",
		in.pid, ptrace.ErrUnsupported, errForeign, strings.Join(names, ", "), more, in.pid)
}
