package codepatch

import (
	"errors"
	"fmt"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

var (
	// ErrRefused says that a site cannot be patched safely.
	ErrRefused = errors.New("cannot be patched")
	// ErrReach says that an address is too far away for a jump or an operand.
	ErrReach = errors.New("out of reach")
)

// Function is the code of one function as it stands in the process, unpatched.
type Function struct {
	Arch  string // as in insn.Code
	Entry uint64
	Code  []byte // all of it; padding after the last instruction is harmless and may be used
	// Entries are further addresses at which others enter the function, when
	// there are any. The addresses that its own calls return to are known.
	Entries []uint64
}

// Displacement says how a site is patched. It is made by [Plan].
type Displacement struct {
	Start, End uint64 // these bytes are replaced
	Old        []byte // what they are

	// SPMoved is how many bytes the stack pointer is below what it was at the
	// function's entry when the probe runs, or at a call below what it is at the
	// callee's entry. It differs from the site's at calls on amd64, where the
	// return address is pushed before the probe runs and not after.
	SPMoved int
	// FlagsLive says that the program may still look at the flags: the probe
	// must leave them as it finds them.
	FlagsLive bool
	// MayFault says that a displaced instruction accesses memory through a
	// pointer that may be bad. The Go runtime turns a fault in its own code into
	// a panic but ends the program when it comes from a stub.
	MayFault bool
	// AtEntry says that the function's first instruction is displaced, where
	// other tracers put their breakpoints.
	AtEntry bool
	// Durable says that another tracer may put a breakpoint in the replaced
	// bytes, and remove it, while the jump is there: one instruction is replaced,
	// and the byte that the kernel restores from the file is the one that the jump
	// begins with, or the only one that is replaced.
	Durable bool
	// Fixed is the only address that the stub can have; 0: any in reach.
	Fixed uint64

	site   uint64
	jump   piece   // to the stub; its target is filled in
	before []piece // what the stub does before the probe
	after  []piece // and after it, up to the jump back
}

// Plan says which bytes of f are to be replaced for a probe at site, of which
// PC, Kind, SPMoved and GReg are looked at. The probe runs before the
// instruction at PC; at a stack check after its branch, when that is not taken.
// An error wraps ErrRefused.
//
// On amd64 the return itself is not displaced at a return, but what precedes it: other tracers put
// breakpoints there. At a store that is too short, the instruction before it is displaced.
func Plan(f Function, site insn.Site) (*Displacement, error) {
	d, err := plan(f, site)
	if err != nil {
		return nil, fmt.Errorf("%s at %#x %w: %w", site.Kind, site.PC, ErrRefused, err)
	}
	return d, nil
}

func plan(f Function, site insn.Site) (*Displacement, error) {
	if f.Entry+uint64(len(f.Code)) < f.Entry {
		return nil, errors.New("the function extends beyond the address space")
	}
	list, err := insn.Instructions(insn.Code{Arch: f.Arch, Entry: f.Entry, Bytes: f.Code})
	if err != nil {
		return nil, err
	}
	p := &planner{f: f, site: site, list: list}
	if p.at, err = p.find(site.PC); err != nil {
		return nil, err
	}
	if site.Kind == insn.SiteStackCheck && list[p.at].Flow != insn.FlowCond {
		return nil, errors.New("the stack check is not a conditional branch")
	}
	if f.Arch == insn.ARM64 {
		return p.arm64()
	}
	return p.amd64()
}

// planner makes the plan for one site.
type planner struct {
	f    Function
	site insn.Site
	list []insn.Instruction // of the whole function
	at   int                // the site's place in list
}

// find returns the place of the instruction at pc.
func (p *planner) find(pc uint64) (int, error) {
	if i, ok := p.indexOf(pc); ok {
		return i, nil
	}
	return 0, errors.New("not the start of an instruction")
}

func (p *planner) indexOf(pc uint64) (int, bool) {
	lo, hi := 0, len(p.list)
	for lo < hi {
		mid := (lo + hi) / 2
		if p.list[mid].PC < pc {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(p.list) && p.list[lo].PC == pc
}

// contains says whether pc lies within the function.
func (p *planner) contains(pc uint64) bool { return pc-p.f.Entry < uint64(len(p.f.Code)) }

// bytes returns the code of an instruction.
func (p *planner) bytes(i insn.Instruction) []byte {
	off := i.PC - p.f.Entry
	return p.f.Code[off : off+uint64(i.Len)]
}

// probesAfter says whether the probe runs after the site's instruction.
func (p *planner) probesAfter() bool { return p.site.Kind == insn.SiteStackCheck }

// displace begins the displacement of list[first:last+1].
func (p *planner) displace(first, last int) *Displacement {
	d := &Displacement{Start: p.list[first].PC, End: p.list[last].Next(), SPMoved: p.site.SPMoved, site: p.site.PC}
	off := d.Start - p.f.Entry
	d.Old = append(d.Old, p.f.Code[off:off+(d.End-d.Start)]...)
	d.AtEntry = d.Start == p.f.Entry
	return d
}

// Overlaps says whether two displacements replace the same bytes.
func (d *Displacement) Overlaps(other *Displacement) bool {
	return d.Start < other.End && other.Start < d.End
}

// StubLen returns the length of the stub for a probe whose code has n bytes.
func (d *Displacement) StubLen(n int) int {
	for _, p := range d.before {
		n += len(p.code)
	}
	for _, p := range d.after {
		n += len(p.code)
	}
	return n
}

// Stub returns the code that is to stand at an address: the displaced
// instructions before the probe, the probe, those after it, the jump back.
// body returns the probe's code for the address where it will stand; it must
// end by running off its end, and its length must not depend on the address. An
// error wraps ErrReach.
func (d *Displacement) Stub(at uint64, body func(addr uint64) []byte) ([]byte, error) {
	stub, err := appendPieces(nil, at, d.before)
	if err == nil {
		stub = append(stub, body(at+uint64(len(stub)))...)
		stub, err = appendPieces(stub, at, d.after)
	}
	if err != nil {
		return nil, fmt.Errorf("stub at %#x for %#x: %w", at, d.site, err)
	}
	return stub, nil
}

// Jump returns the bytes that replace the old ones when the stub stands at an
// address: a jump to it, or at a call a call. An error wraps ErrReach.
func (d *Displacement) Jump(at uint64) ([]byte, error) {
	if d.Fixed != 0 && at != d.Fixed {
		return nil, fmt.Errorf("jump from %#x to its stub at %#x, not %#x: %w", d.Start, at, d.Fixed, ErrReach)
	}
	jump := d.jump
	jump.target = at
	code, err := jump.link(nil, d.Start)
	if err != nil {
		return nil, fmt.Errorf("jump from %#x to its stub: %w", d.Start, err)
	}
	return append(code, d.Old[len(code):]...), nil // the rest is never executed
}

// Reach returns the interval of addresses that stubs of all the displacements
// can stand in, from their first byte to their last: what lies between lo and
// hi reaches everything it has to, and is reached. It is some bytes smaller than
// need be. An error says that there is no such interval.
func Reach(ds ...*Displacement) (lo, hi uint64, err error) {
	hi = ^uint64(0)
	near := func(target, far uint64) {
		if target > far {
			lo = max(lo, target-far)
		}
		if target < ^uint64(0)-far {
			hi = min(hi, target+far)
		}
	}
	for _, d := range ds {
		far := d.jump.reach()
		near(d.Start, far)
		near(d.End, far)
		for _, list := range [][]piece{d.before, d.after} {
			for _, p := range list {
				if p.form != relNone {
					near(p.target, p.reach())
				}
			}
		}
	}
	if lo >= hi {
		return 0, 0, fmt.Errorf("one place for the stubs of %d sites: %w", len(ds), ErrReach)
	}
	return lo, hi, nil
}
