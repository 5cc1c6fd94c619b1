package gobin

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// Globals holds the addresses of the runtime's variables (runtime/proc.go, runtime/runtime2.go). Unknown addresses are
// 0.
type Globals struct {
	Allgs       uint64 // []*g, all g's that were ever allocated
	Allglen     uint64 // uintptr, length of the list at Allgptr
	Allgptr     uint64 // **g, first element of the list (Go 1.16 and later)
	Allm        uint64 // *m, head of the list of threads
	Allp        uint64 // []*p
	Sched       uint64 // schedt
	Work        uint64 // state of the garbage collector
	WaitReasons uint64 // [...]string, names of the wait reasons

	GCController uint64 // gcControllerState (runtime/mgcpacer.go)
	Gcpercent    uint64 // int32, GOGC (before Go 1.17; then it is a field of gcController)
	Memstats     uint64 // mstats (runtime/mstats.go)
	Mheap        uint64 // mheap (runtime/mheap.go)

	Profiles ProfileGlobals
}

// ProfileGlobals holds the addresses of the variables of the profiles that the runtime keeps (runtime/mprof.go).
// Unknown addresses are 0.
type ProfileGlobals struct {
	MemBuckets    uint64 // *bucket, head of the list of the memory profile
	BlockBuckets  uint64 // *bucket, head of the list of the block profile
	MutexBuckets  uint64 // *bucket, head of the list of the mutex profile
	MemCycle      uint64 // mProf, or mProfCycleHolder (Go 1.19 and later): the cycle of the memory profile
	MemLock       uint64 // mutex that guards the published values of the memory profile
	BlockLock     uint64 // mutex that guards the block and mutex profiles
	MemRate       uint64 // int, MemProfileRate
	MemDisabled   uint64 // bool, set by the linker (Go 1.17 and later)
	BlockRate     uint64 // uint64, in ticks of the clock
	MutexFraction uint64 // uint64
	Ticks         uint64 // ticksType (runtime/runtime.go): the clock of the block and mutex profiles
}

// globalNames are the symbols of the variables, and the fields for their addresses.
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
	"runtime.gcpercent":    func(g *Globals) *uint64 { return &g.Gcpercent },
	"runtime.memstats":     func(g *Globals) *uint64 { return &g.Memstats },
	"runtime.mheap_":       func(g *Globals) *uint64 { return &g.Mheap },

	"runtime.mbuckets":               func(g *Globals) *uint64 { return &g.Profiles.MemBuckets },
	"runtime.bbuckets":               func(g *Globals) *uint64 { return &g.Profiles.BlockBuckets },
	"runtime.xbuckets":               func(g *Globals) *uint64 { return &g.Profiles.MutexBuckets },
	"runtime.mProf":                  func(g *Globals) *uint64 { return &g.Profiles.MemCycle }, // to Go 1.18
	"runtime.mProfCycle":             func(g *Globals) *uint64 { return &g.Profiles.MemCycle },
	"runtime.proflock":               func(g *Globals) *uint64 { return &g.Profiles.MemLock }, // to Go 1.18; guards all profiles
	"runtime.profMemActiveLock":      func(g *Globals) *uint64 { return &g.Profiles.MemLock },
	"runtime.profBlockLock":          func(g *Globals) *uint64 { return &g.Profiles.BlockLock },
	"runtime.MemProfileRate":         func(g *Globals) *uint64 { return &g.Profiles.MemRate },
	"runtime.disableMemoryProfiling": func(g *Globals) *uint64 { return &g.Profiles.MemDisabled },
	"runtime.blockprofilerate":       func(g *Globals) *uint64 { return &g.Profiles.BlockRate },
	"runtime.mutexprofilerate":       func(g *Globals) *uint64 { return &g.Profiles.MutexFraction },
	"runtime.ticks":                  func(g *Globals) *uint64 { return &g.Profiles.Ticks },
}

const (
	waitReasonsName = "runtime.waitReasonStrings"
	stringSize      = 16 // of a string's header
)

// Globals returns the addresses of the runtime's variables. They come from the symbol table, or if that was removed,
// from the instructions that refer to the variables.
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
	if p := &b.globals.Profiles; p.BlockLock == 0 {
		p.BlockLock = p.MemLock
	}
	if b.globals.Allgs != 0 && b.globals.Allm != 0 {
		return
	}
	inferred := b.inferred()
	b.waitReasonCount = inferred.WaitReasonCount
	b.globals = Globals{
		Allgs: inferred.Allgs.Addr, Allglen: inferred.Allglen.Addr, Allgptr: inferred.Allgptr.Addr,
		Allm: inferred.Allm.Addr, Allp: inferred.Allp.Addr, Sched: inferred.Sched.Addr, Work: inferred.Work.Addr,
		WaitReasons: inferred.WaitReasons.Addr, GCController: inferred.GCController.Addr, Gcpercent: inferred.Gcpercent.Addr,
		Memstats: b.inferMemstats(), Mheap: inferred.Mheap.Addr,
		Profiles: profileGlobals(&inferred),
	}
}

// profileGlobals returns the addresses of the variables of the profiles that were deduced from code.
func profileGlobals(g *insn.Globals) ProfileGlobals {
	return ProfileGlobals{
		MemBuckets: g.MemBuckets.Addr, BlockBuckets: g.BlockBuckets.Addr, MutexBuckets: g.MutexBuckets.Addr,
		MemCycle: g.MemProfCycle.Addr, MemLock: g.MemProfLock.Addr, BlockLock: g.BlockProfLock.Addr,
		MemRate: g.MemProfileRate.Addr, MemDisabled: g.DisableMemoryProfiling.Addr,
		BlockRate: g.BlockProfileRate.Addr, MutexFraction: g.MutexProfileRate.Addr, Ticks: g.Ticks.Addr,
	}
}

// inferMemstats deduces the address of runtime.memstats from the end of a collection (runtime.gcMarkTermination), which
// updates several of its fields: only one address has a reference at each of their offsets.
func (b *Binary) inferMemstats() uint64 {
	code, ok := b.runtimeCode("runtime.gcMarkTermination")
	if !ok {
		return 0
	}
	refs, err := insn.Refs(code)
	if err != nil {
		return 0
	}
	var offsets []uint64
	for _, field := range []string{"pause_total_ns", "gc_cpu_fraction", "numgc", "numforcedgc", "last_gc_unix"} {
		f, ok := b.Layout().Field("runtime.mstats." + field)
		if !ok {
			return 0
		}
		offsets = append(offsets, uint64(f.Offset))
	}
	size, _ := b.Layout().Size("runtime.mstats")
	addrs := map[uint64]bool{}
	for _, r := range refs {
		addrs[r.Addr] = true
	}
	found := uint64(0)
	for addr := range addrs {
		base := addr - offsets[0]
		lacks := slices.ContainsFunc(offsets, func(off uint64) bool { return !addrs[base+off] })
		if lacks || !b.isData(base, int(size)) {
			continue
		}
		if found != 0 {
			return 0 // ambiguous
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

// guessTextStart finds the start of the code if the pclntab does not contain it and the release is unknown. It tries
// the layouts of the releases that omit it.
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

// Word returns the initial value of the variable of 8 bytes at an address.
func (b *Binary) Word(addr uint64) (uint64, error) {
	var word [8]byte
	err := b.image.read(word[:], addr)
	return binary.LittleEndian.Uint64(word[:]), err
}

// WaitReasons returns the names of the wait reasons by number (runtime.waitReasonStrings). They come from the
// executable, or if they are not found there, from the table of its release.
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

// Layout returns the layouts of the runtime's structs. They come from the DWARF of the executable, or if that is unusable,
// from the table of its release.
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

// FieldOffsets returns the offsets of fields of structs of any package, by their paths as in package layout. Fields
// that the DWARF of the executable does not contain are omitted. The error reports why the DWARF could not be read.
func (b *Binary) FieldOffsets(paths []string) (map[string]uint64, error) {
	src, ok := layout.DWARFOf(b.image.elf)
	if !ok {
		return nil, nil
	}
	var structs []string
	for _, path := range paths {
		if name, ok := layout.StructOf(path); ok && !slices.Contains(structs, name) {
			structs = append(structs, name)
		}
	}
	fields, err := layout.Fields(src, structs)
	if err != nil {
		return nil, b.errorf("DWARF of %s: %w", strings.Join(structs, ", "), err)
	}
	offsets := map[string]uint64{}
	for _, path := range paths {
		if f, ok := fields[path]; ok {
			offsets[path] = uint64(f.Offset)
		}
	}
	return offsets, nil
}

// DWARFError returns the reason why the executable's debug information was not used. It is nil if the information was
// used or does not exist.
func (b *Binary) DWARFError() error {
	b.Layout()
	return b.dwarfErr
}
