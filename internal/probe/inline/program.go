package inline

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// Options say what a Program is made for.
type Options struct {
	Arch     string // of the target, as Go names it
	Config   csrc.Config
	Sets     []probe.PlannedSet
	PID      uint64   // of the target, in its own PID namespace; used by probes that read memory by system calls
	Starts   []uint64 // functions that goroutines of the runtime itself start with
	Waits    int      // goroutines that can wait at the same time when only long waits are reported; 0: enough
	Geometry Geometry // of the region
	Clock    *Clock
	Stable   goproc.StableMemory // memory that probes read without system calls

	// Propagate is how spans are sampled if requests carry their contexts: Geometry.Contexts.
	Propagate probe.Propagate
}

const (
	// knownStacks is the number of sent stacks that the probes remember. Other stacks are sent again.
	knownStacks = 1 << 16
	// enoughWaits is the limit of the eBPF engine too. Unused entries take no memory.
	enoughWaits = 1 << 20
	maxWaits    = 1 << 24
	maxStarts   = 1 << 12
)

// Program is the probes and the memory of the target's own that they need: the code, and from PrivateAt on memory that can
// be written, all in one piece.
type Program struct {
	arch     string
	sets     []programSet
	page     uint64 // the largest page size of the architecture
	settings csrc.Settings
	geometry Geometry
	coarse   bool     // hits take a sequence number instead of a time
	starts   []uint64 // as a table

	privateAt, startsAt, knownAt, timesAt, waitsAt, size int
}

// programSet is one set of probes: its code, linked with its settings, and where both are.
type programSet struct {
	name       string
	native     csrc.Native
	code       int    // offset of the code
	settings   int    // offset of the settings
	first      int    // number of its first probe among those of all sets
	registersG []byte // number of the register that holds the current g at the places of each probe
	own        []byte // what follows the settings of all sets
}

// setAlign is what code and settings of a set are aligned to: see csrc.Native.Link.
const setAlign = 4 << 10

// NewProgram makes the probes ready for a target.
func NewProgram(o Options) (*Program, error) {
	if err := o.Geometry.check(); err != nil {
		return nil, err
	}
	p := &Program{arch: o.Arch, geometry: o.Geometry, coarse: o.Clock.coarse}
	if err := p.addSets(o.Sets); err != nil {
		return nil, err
	}
	s := &p.settings
	s.Config, s.Pid = o.Config, o.PID
	heap := &o.Stable.Heap
	s.Arenas, s.ArenaBase, s.ArenaSpans = heap.Arenas, heap.Base, heap.Spans
	s.ArenasAt, s.Faults, s.SpanStart, s.SpanPages = heap.Starting.Arenas, heap.Starting.Faults, heap.Starting.SpanStart, heap.Starting.SpanPages
	for i, part := range o.Stable.Image[:min(len(o.Stable.Image), len(s.Image)/2)] { // others are read by system calls
		s.Image[2*i], s.Image[2*i+1] = part.Start, part.Size
	}
	if o.Geometry.Allocated > 0 {
		s.AllocatedMask = uint64(o.Geometry.Allocated - 1)
	}
	if o.Geometry.Contexts > 0 {
		var seed [8]byte
		rand.Read(seed[:]) // never fails
		s.Seed, s.ContextsMask = binary.NativeEndian.Uint64(seed[:]), uint64(o.Geometry.Contexts-1)
		s.SampleBound = o.Propagate.Bound
		if o.Propagate.Parent {
			s.SampleParent = 1
		}
		if o.Propagate.Baggage {
			s.Baggage = 1
		}
	}
	if o.Config.MinBlock > 0 { // the probes' times are ticks
		if p.coarse {
			return nil, fmt.Errorf("%w: measuring the length of waits requires the processor's counter", probe.ErrUnsupported)
		}
		s.Config.MinBlock = max(1, o.Clock.Ticks(time.Duration(o.Config.MinBlock)))
	}
	if len(o.Starts) > maxStarts {
		return nil, fmt.Errorf("%d functions of the runtime, more than %d", len(o.Starts), maxStarts)
	}
	p.starts = startTable(o.Starts)
	p.knownAt = alignUp(p.startsAt+8*len(p.starts), int(p.page))
	p.timesAt = alignUp(p.knownAt+8*knownStacks, int(p.page))
	p.waitsAt = alignUp(p.timesAt+8*csrc.Times, int(p.page))
	p.size = p.waitsAt
	s.StartsMask, s.KnownMask = uint64(len(p.starts)-1), knownStacks-1
	s.ListedMask = uint64(o.Geometry.Listed - 1)
	if s.Config.MinBlock > 0 {
		waits := csrc.TableWindow
		for waits < o.Waits && waits < maxWaits || o.Waits <= 0 && waits < enoughWaits {
			waits *= 2
		}
		s.WaitsMask = uint64(waits - 1)
		p.size = alignUp(p.waitsAt+waits*int(unsafe.Sizeof(csrc.WaitEntry{})), int(p.page))
	}
	return p, nil
}

// addSets lays out the sets: the code of all, then the settings of all.
func (p *Program) addSets(sets []probe.PlannedSet) error {
	for i := range sets {
		s := &sets[i]
		native, ok := s.Code.Native(p.arch)
		if !ok {
			return fmt.Errorf("no probes for %s", p.arch)
		}
		at := alignUp(p.privateAt, setAlign)
		set := programSet{name: s.Name, native: native, code: at, first: s.First, own: s.Bytes()}
		for _, site := range s.Sites {
			set.registersG = append(set.registersG, site.G_reg)
		}
		if want := int(unsafe.Sizeof(csrc.Settings{})) + len(set.own); native.SettingsSize != uint64(want) {
			return fmt.Errorf("%s: settings have %d bytes, want %d", s.Name, want, native.SettingsSize)
		}
		p.page, p.privateAt = native.Page, at+len(native.Code)
		p.sets = append(p.sets, set)
	}
	p.privateAt = alignUp(p.privateAt, int(p.page))
	at := p.privateAt
	for i := range p.sets {
		s := &p.sets[i]
		s.settings = alignUp(at, setAlign)
		if err := s.native.Link(p.arch, uint64(s.settings-s.code)); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		at = s.settings + int(s.native.SettingsSize)
	}
	p.startsAt = alignUp(at, 64)
	return nil
}

// startTable creates a hash table of functions without collisions.
func startTable(starts []uint64) []uint64 {
next:
	for size := csrc.TableWindow; ; size *= 2 {
		table := make([]uint64, size)
		for _, pc := range starts {
			if pc == 0 {
				continue
			}
			if ok, _ := setAdd(table, pc); !ok {
				continue next
			}
		}
		return table
	}
}

// Size returns the number of bytes that the target must map.
func (p *Program) Size() int { return p.size }

// Code returns what is at the beginning. It is executed and never written.
func (p *Program) Code() []byte {
	var code []byte
	for i := range p.sets {
		code = append(code, make([]byte, p.sets[i].code-len(code))...)
		code = append(code, p.sets[i].native.Code...)
	}
	return code
}

// PrivateAt returns where memory begins that is written, on a page boundary. It is zero, but for Private. A child that the
// target forks must find it zero (MADV_WIPEONFORK): then it leaves alone what is shared.
func (p *Program) PrivateAt() int { return p.privateAt }

// Private returns what is to be at PrivateAt, for a Program that is at an address, and the region at another.
func (p *Program) Private(program, region uint64) []byte {
	s, g := p.settings, p.geometry
	s.Shared = region
	s.Lanes = region + uint64(g.lanes())
	s.LanesEnd = s.Lanes + uint64(g.Lanes*csrc.LaneSpan)
	s.Listed = region + uint64(g.listed())
	if g.Contexts > 0 {
		s.Contexts, s.Carried = region+uint64(g.contexts()), region+uint64(g.carried())
	}
	if g.Allocated > 0 {
		s.Allocated = region + uint64(g.allocated())
	}
	s.Starts = program + uint64(p.startsAt)
	s.Known = program + uint64(p.knownAt)
	s.Times = program + uint64(p.timesAt)
	if s.WaitsMask != 0 {
		s.Waits = program + uint64(p.waitsAt)
	}
	b := make([]byte, p.startsAt-p.privateAt, p.knownAt-p.privateAt)
	for i := range p.sets {
		to := b[p.sets[i].settings-p.privateAt:]
		n := copy(to, unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s)))
		copy(to[n:], p.sets[i].own)
	}
	for _, pc := range p.starts {
		b = binary.LittleEndian.AppendUint64(b, pc)
	}
	return b
}

// Lend tells the probes which memory they lend to the program. It comes before Private.
func (p *Program) Lend(addr uint64) { p.settings.Loans = addr }

// Place is one place in the target at which a probe is to be called.
type Place struct {
	Set     int // index of the probe's set
	Probe   csrc.Probe
	Fence   bool   // all earlier instructions must have completed when the time is read
	Untimed bool   // the time is not read, unless hits take a sequence number instead
	G       uint8  // number of the register that holds the current g; csrc.NoRegister: it is in thread-local storage
	Addr    uint64 // where the body will be

	// SPAdjust is added to the stack pointer to get what it is where the probe's settings describe (csrc.Site).
	SPAdjust int32
	// Framed says that the frame pointer is the function's own, and points to the caller's, which the probe is to have.
	Framed bool
}

// Body makes the code that calls a probe, for a Program at an address. It is entered at its beginning and left at its end.
// It changes nothing that Go code at a probe's place relies on: on amd64 the flags, R12 and R13, on arm64 the flags, R16,
// R17 and R19 to R25. It writes nothing to the stack.
func (p *Program) Body(program uint64, place Place) ([]byte, error) {
	if place.Set >= len(p.sets) || int(place.Probe) >= len(p.sets[place.Set].native.Probes) {
		return nil, fmt.Errorf("no probe %d in set %d", place.Probe, place.Set)
	}
	set := &p.sets[place.Set]
	b := body{
		Place: place, config: &p.settings.Config, lanes: p.geometry.Lanes, coarse: p.coarse, number: set.first + int(place.Probe),
		settings: program + uint64(set.settings), function: program + uint64(set.code) + uint64(set.native.Probes[place.Probe]),
	}
	var code []byte
	var err error
	if p.arch == "amd64" {
		code, err = b.x86()
	} else {
		code, err = b.arm()
	}
	if err != nil {
		return nil, fmt.Errorf("code for probe %d of %s: %w", place.Probe, set.name, err)
	}
	return code, nil
}

// body holds the parameters of the code of one place.
type body struct {
	Place
	config             *csrc.Config
	lanes              int
	coarse             bool
	number             int    // of the probe among those of all sets
	settings, function uint64 // addresses in the target
}

// Places in memory that bodies refer to.
var (
	offShared   = int32(unsafe.Offsetof(csrc.Settings{}.Shared))
	offLanes    = int32(unsafe.Offsetof(csrc.Settings{}.Lanes))
	offLanesEnd = int32(unsafe.Offsetof(csrc.Settings{}.LanesEnd))

	offEnabled = int32(unsafe.Offsetof(csrc.Shared{}.Control.Enabled))
	offLost    = int32(unsafe.Offsetof(csrc.Shared{}.Control.Lost))
	offMissed  = int32(unsafe.Offsetof(csrc.Shared{}.Missed))
	offTicks   = int32(unsafe.Offsetof(csrc.Shared{}.Ticks))

	offBusy  = int32(unsafe.Offsetof(csrc.Lane{}.Busy))
	offTurns = int32(unsafe.Offsetof(csrc.Lane{}.Turns))
	offG     = int32(unsafe.Offsetof(csrc.Lane{}.G))
	offStamp = int32(unsafe.Offsetof(csrc.Lane{}.Stamp))
	offRegs  = int32(unsafe.Offsetof(csrc.Lane{}.Regs))
)

const (
	stackTop  = int32(csrc.LaneSpan - csrc.LaneTop) // of a lane's scratch stack
	spanShift = 14                                  // LaneSpan is 1 << spanShift
	mShift    = 11                                  // log2 of the distance of Ms, which select the lane if there is no P
)
