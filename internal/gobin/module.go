package gobin

import (
	"encoding/binary"
	"fmt"

	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// A Module is the runtime's description of the image of the executable (runtime.moduledata). Zero fields are unknown.
type Module struct {
	Addr         uint64 // of runtime.firstmoduledata
	Text         uint64
	MinPC, MaxPC uint64
	GoFunc       uint64 // base of the function data (Go 1.18 and later)
}

// findModule finds the module data: the only place in the data segment that points to the pclntab and whose other
// fields match it.
func (b *Binary) findModule(l *layout.Layout) (Module, error) {
	size, ok := l.Size("runtime.moduledata")
	if !ok || size > 64<<10 {
		return Module{}, fmt.Errorf("%w: no layout of runtime.moduledata for %s", ErrUnsupported, b.goVersion)
	}
	candidates, _ := b.pointersTo(b.pcln.addr, false) // what can be read
	for _, addr := range candidates {
		raw := make([]byte, size)
		if b.image.readRelocated(raw, addr) != nil {
			continue
		}
		if m, ok := b.checkModule(l, addr, raw); ok {
			return m, nil
		}
	}
	return Module{}, fmt.Errorf("%w: no module data that fits the pclntab at %#x", ErrCorrupt, b.pcln.addr)
}

// checkModule reads the fields of a candidate and compares them with the pclntab.
func (b *Binary) checkModule(l *layout.Layout, addr uint64, raw []byte) (Module, bool) {
	field := func(name string) uint64 {
		f, ok := l.Field("runtime.moduledata." + name)
		if !ok || int(f.Offset)+8 > len(raw) {
			return 0
		}
		return binary.LittleEndian.Uint64(raw[f.Offset:])
	}
	t := b.pcln
	m := Module{
		Addr: addr, Text: field("text"), MinPC: field("minpc"), MaxPC: field("maxpc"),
		GoFunc: field("gofunc"),
	}
	start := t.textStart
	if t.format.relative && start == 0 {
		start = m.Text // Go 1.26 and later set the header's field to zero
	}
	shift := start - t.textStart
	if field("ftab.len") != uint64(t.nfunc)+1 || m.MinPC != t.entry(0)+shift || m.MaxPC != t.entry(t.nfunc)+shift {
		return Module{}, false
	}
	if s, ok := b.image.segmentOf(m.Text); !ok || !s.exec {
		return Module{}, false
	}
	t.textStart = start
	return m, true
}
