package gobin

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// Globals are the addresses of the runtime's variables (runtime/proc.go, runtime/runtime2.go); 0 where unknown.
type Globals struct {
	Allgs       uint64 // []*g, every goroutine ever made
	Allglen     uint64 // uintptr, length of the list at Allgptr
	Allgptr     uint64 // **g, first element of the list (Go 1.16 and later)
	Allm        uint64 // *m, head of the list of threads
	Allp        uint64 // []*p
	Sched       uint64 // schedt
	Work        uint64 // state of the garbage collector
	WaitReasons uint64 // [...]string, names of the wait reasons

	GCController uint64 // gcControllerState (runtime/mgcpacer.go)
	Memstats     uint64 // mstats (runtime/mstats.go); left 0 from Go 1.17 on, which keeps heapLive in gcController
}

// globalNames are the symbols of the variables, and where their addresses go.
var globalNames = map[string]func(*Globals) *uint64{
	"runtime.allgs":   func(g *Globals) *uint64 { return &g.Allgs },
	"runtime.allglen": func(g *Globals) *uint64 { return &g.Allglen },
	"runtime.allgptr": func(g *Globals) *uint64 { return &g.Allgptr },
	"runtime.allm":    func(g *Globals) *uint64 { return &g.Allm },
	"runtime.allp":    func(g *Globals) *uint64 { return &g.Allp },
	"runtime.sched":   func(g *Globals) *uint64 { return &g.Sched },
	"runtime.work":    func(g *Globals) *uint64 { return &g.Work },
	waitReasonsName:   func(g *Globals) *uint64 { return &g.WaitReasons },

	"runtime.gcController": func(g *Globals) *uint64 { return &g.GCController },
	"runtime.memstats":     func(g *Globals) *uint64 { return &g.Memstats },
}

const (
	waitReasonsName = "runtime.waitReasonStrings"
	stringSize      = 16 // of a string's header
)

// Globals returns where the runtime's variables are: by the symbol table, and where that has been removed by the
// instructions that refer to them.
func (b *Binary) Globals() Globals {
	b.globalsOnce.Do(b.findGlobals)
	return b.globals
}

func (b *Binary) findGlobals() {
	names := map[string]bool{}
	for name := range globalNames {
		names[name] = true
	}
	for name, s := range b.image.symbols(names) {
		*globalNames[name](&b.globals) = s.addr
		if name == waitReasonsName {
			b.waitReasonCount = int(s.size / stringSize)
		}
	}
	if b.version.Minor >= 17 {
		b.globals.Memstats = 0
	}
	if b.globals.Allgs != 0 && b.globals.Allm != 0 {
		return
	}
	inferred := b.inferred()
	b.waitReasonCount = inferred.WaitReasonCount
	b.globals = Globals{
		Allgs: inferred.Allgs.Addr, Allglen: inferred.Allglen.Addr, Allgptr: inferred.Allgptr.Addr,
		Allm: inferred.Allm.Addr, Allp: inferred.Allp.Addr, Sched: inferred.Sched.Addr, Work: inferred.Work.Addr,
		WaitReasons: inferred.WaitReasons.Addr, GCController: inferred.GCController.Addr, Memstats: b.inferMemstats(),
	}
}

// inferMemstats deduces the address of runtime.memstats from the code that asks whether it is time for a collection
// (runtime.gcTrigger.test, inlined into mallocgc) and reads several of its fields: only one address has a reference at
// each of their offsets.
func (b *Binary) inferMemstats() uint64 {
	code, ok := b.runtimeCode("runtime.mallocgc")
	if !ok {
		return 0
	}
	refs, err := insn.Refs(code)
	if err != nil {
		return 0
	}
	var offsets []uint64
	for _, field := range []string{"heap_live", "gc_trigger", "enablegc"} {
		f, ok := b.Layout().Field("runtime.mstats." + field)
		if !ok {
			return 0
		}
		offsets = append(offsets, uint64(f.Offset))
	}
	addrs := map[uint64]bool{}
	for _, r := range refs {
		addrs[r.Addr] = true
	}
	found := uint64(0)
	for addr := range addrs {
		base := addr - offsets[0]
		if !addrs[base+offsets[1]] || !addrs[base+offsets[2]] || !b.isData(base, 8) {
			continue
		}
		if found != 0 {
			return 0 // two could be meant
		}
		found = base
	}
	return found
}

// inferred deduces the addresses of the runtime's variables from the code of its functions.
func (b *Binary) inferred() insn.Globals {
	return insn.InferGlobals(b.runtimeCode, b.isData)
}

// runtimeCode returns the machine code of a runtime function.
func (b *Binary) runtimeCode(name string) (insn.Code, bool) {
	f, ok := b.LookupFunc(name)
	if !ok {
		return insn.Code{}, false
	}
	code, err := b.code(f)
	return code, err == nil
}

// isData reports whether an address range is data of the program.
func (b *Binary) isData(addr uint64, size int) bool {
	s, ok := b.image.segmentOf(addr)
	return ok && !s.exec && uint64(size) <= s.memsz-(addr-s.addr)
}

// versionFromCode reads the release from runtime.buildVersion. Executables without build information need it: those of
// Go 1.12, and those whose build information was removed.
func (b *Binary) versionFromCode() (string, error) {
	if err := b.guessTextStart(); err != nil {
		return "", err
	}
	addr := b.image.symbols(map[string]bool{"runtime.buildVersion": true})["runtime.buildVersion"].addr
	if addr == 0 {
		addr = b.inferred().BuildVersion.Addr
	}
	s, err := b.image.goString(addr)
	if err != nil || !strings.Contains(s, "go1.") {
		return "", fmt.Errorf("%w: neither build information nor the runtime's version string can be found", ErrUnsupported)
	}
	return s, nil
}

// guessTextStart finds the start of the code where the pclntab does not tell it and the release is not known: it tries
// the layouts of the releases that leave it out.
func (b *Binary) guessTextStart() error {
	if !b.pcln.format.relative || b.pcln.textStart != 0 {
		return nil
	}
	for minor := NewestMinor; minor >= b.pcln.format.oldest; minor-- {
		l, err := layout.ForVersion(Version{Minor: minor}.String(), b.arch)
		if err != nil {
			continue
		}
		if m, err := b.findModule(l); err == nil {
			b.module = m
			return nil
		}
	}
	return fmt.Errorf("%w: the start of the code cannot be found", ErrCorrupt)
}

const maxString = 1 << 10

// goString reads the string whose header is at addr.
func (im *image) goString(addr uint64) (string, error) {
	var h [16]byte
	if err := im.readRelocated(h[:], addr); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint64(h[8:])
	if n > maxString {
		return "", fmt.Errorf("%w: string of %d bytes at %#x", ErrCorrupt, n, addr)
	}
	s := make([]byte, n)
	err := im.read(s, binary.LittleEndian.Uint64(h[:]))
	return string(s), err
}

// WaitReasons returns the names of the wait reasons by their number (runtime.waitReasonStrings): from the executable
// itself, else from the table of its release.
func (b *Binary) WaitReasons() []string {
	table := b.table.WaitReasons()
	addr := b.Globals().WaitReasons
	n := b.waitReasonCount
	if n == 0 {
		n = len(table)
	}
	if addr == 0 || n > maxWaitReasons {
		return table
	}
	own := make([]string, n)
	for i := range own {
		s, err := b.image.goString(addr + stringSize*uint64(i))
		if err != nil {
			return table
		}
		own[i] = s
	}
	return own
}

const maxWaitReasons = 256

// Layout returns the layouts of the runtime's structs: from the executable's DWARF, else from the table of its release.
func (b *Binary) Layout() *layout.Layout {
	b.layoutOnce.Do(func() {
		b.layout = b.table
		src, ok := layout.DWARFOf(b.image.elf)
		if !ok {
			return
		}
		l, err := layout.FromDWARF(src)
		if err != nil {
			b.dwarfErr = err
			return
		}
		b.layout = l
	})
	return b.layout
}

// DWARFError says why the executable's debug information was not used although it has some; nil otherwise.
func (b *Binary) DWARFError() error {
	b.Layout()
	return b.dwarfErr
}
