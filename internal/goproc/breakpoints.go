package goproc

import (
	"encoding/binary"
	"fmt"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// A Breakpoint is an instruction that another tracer has replaced: bpftrace, perf, another user of uprobes, or a
// debugger.
type Breakpoint struct {
	Func   string
	Offset uint64 // bytes from the entry of the function
}

func (b Breakpoint) String() string {
	if b.Offset == 0 {
		return b.Func
	}
	return fmt.Sprintf("%s+%#x", b.Func, b.Offset)
}

const (
	maxBreakpoints = 1000
	maxCompared    = 256 << 20 // bytes of code
)

// Breakpoints returns the breakpoints that other tracers have set, found by comparing the code in memory with the
// executable. known lists the changes made by Loupe itself, which are ignored. Breakpoints examines at most 256 MiB of
// code and returns at most 1000 breakpoints.
func (p *Process) Breakpoints(known []ptrace.Edit) ([]Breakpoint, error) {
	var list []Breakpoint
	compared := 0
	for f := range p.main.bin.Functions() {
		file, err := p.main.bin.Code(f)
		if err != nil {
			continue // this code is not in the file
		}
		if compared += len(file); compared > maxCompared || len(list) >= maxBreakpoints {
			break
		}
		now, entry := make([]byte, len(file)), f.Entry+p.main.bias
		if err := p.mem.read(now, entry); err != nil {
			return list, fmt.Errorf("process %d: reading the code of %s: %w", p.pid, f.Name, err)
		}
		code := append([]byte(nil), file...)
		for _, e := range known {
			if e.Addr >= entry && e.Addr-entry < uint64(len(code)) {
				copy(code[e.Addr-entry:], e.New)
			}
		}
		list = appendBreakpoints(list, p.main.bin.Arch(), f, file, code, now)
	}
	return list, nil
}

// appendBreakpoints appends the instructions of the file that a breakpoint has replaced in memory.
func appendBreakpoints(list []Breakpoint, arch string, f gobin.Func, file, code, now []byte) []Breakpoint {
	if string(code) == string(now) {
		return list
	}
	instructions, err := insn.Instructions(insn.Code{Arch: arch, Entry: f.Entry, Bytes: file})
	if err != nil {
		return list
	}
	for _, i := range instructions {
		if off := i.PC - f.Entry; isBreakpoint(arch, now[off:]) && !isBreakpoint(arch, code[off:]) {
			list = append(list, Breakpoint{f.Name, off})
		}
	}
	return list
}

// isBreakpoint reports whether code starts with INT3, or BRK on arm64.
func isBreakpoint(arch string, code []byte) bool {
	if arch == insn.ARM64 {
		return len(code) >= 4 && binary.LittleEndian.Uint32(code)&0xFFE0001F == 0xD4200000
	}
	return len(code) > 0 && code[0] == 0xCC
}
