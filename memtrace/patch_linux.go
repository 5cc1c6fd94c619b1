//go:build linux && (amd64 || arm64)

package memtrace

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// Releases of Go whose allocator is known.
const (
	oldestGo = 23
	newestGo = 27
)

// place is where a function is patched.
type place struct {
	function
	hook hookKind
	site insn.Site
	*codepatch.Displacement
}

// places returns where to patch each function that allocates.
func (t *text) places() ([]place, error) {
	minor, err := goMinor(runtime.Version())
	if err != nil {
		return nil, err
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	var list []place
	for _, f := range t.functions {
		if !allocators.MatchString(f.name) {
			continue
		}
		if err := t.unchanged(f, exe); err != nil {
			return nil, err
		}
		hook := hookInner
		if f.name == mallocgc {
			hook = hookPlain
		}
		p, err := t.placeIn(f, hook, minor)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		list = append(list, p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].entry < list[j].entry })
	if len(list) > 1 {
		for i, name := range []string{mallocgc, slowTiny} {
			if f, ok := t.functions[name]; ok {
				outer[2*i], outer[2*i+1] = uint64(f.entry), uint64(f.end-f.entry)
			}
		}
	}
	return list, nil
}

func namesOf(places []place) []string {
	list := make([]string, len(places))
	for i, p := range places {
		list[i] = p.name
	}
	return list
}

// words are how many words of arguments each hook needs.
var words = [hookKinds]int{hookPlain: 2, hookInner: 2, hookStart: 1}

// placeIn returns the first place in a function that can be patched. It is never the first instruction, and other tools may set
// breakpoints there.
func (t *text) placeIn(f function, hook hookKind, minor int) (place, error) {
	code := insn.Code{Arch: runtime.GOARCH, Entry: uint64(f.entry), Bytes: f.code()}
	sites, err := insn.LaterSites(code, minor, words[hook], uint64(t.functions[throw].entry))
	if err != nil {
		return place{}, err
	}
	first, err := insn.EntrySite(code, minor, words[hook])
	if err != nil {
		return place{}, err
	}
	if first.Kind == insn.SiteStackCheck { // the hook runs if the stack need not grow
		sites = append([]insn.Site{first}, sites...)
	}
	err = errors.New("no place that every call passes once")
	for _, s := range sites {
		d, planErr := codepatch.Plan(codepatch.Function{Arch: code.Arch, Entry: code.Entry, Code: code.Bytes}, s)
		switch {
		case planErr != nil:
			err = planErr
		case d.AtEntry || d.FlagsLive || d.MayFault || !d.Durable || d.Fixed != 0:
			err = errors.New("no place where code can be moved safely")
		case hook == hookStart && !canLeave(s):
			err = errors.New("no place where the function can be left")
		default:
			return place{f, hook, s, d}, nil
		}
	}
	return place{}, err
}

// goMinor returns the minor version of a release of Go whose allocator is known.
func goMinor(version string) (int, error) {
	text, ok := strings.CutPrefix(version, "go1.")
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		text = text[:end]
	}
	minor, err := strconv.Atoi(text)
	if !ok || err != nil || minor < oldestGo || minor > newestGo {
		return 0, fmt.Errorf("%s is not one of the releases Go 1.%d to 1.%d", version, oldestGo, newestGo)
	}
	return minor, nil
}

// unmap unmaps the stubs. No code leads to them.
func (ps *patches) unmap() error {
	if err := unmap(ps.stubs); err != nil {
		return err
	}
	ps.stubs = nil
	return nil
}

// patches are patches with what they replace.
type patches struct {
	new, old    []patch
	first, last uintptr // pages that are written to
	stubs       []byte
	written     bool
}

// prepare writes the stubs for places and returns the patches that lead to them.
func prepare(places []place) (*patches, error) {
	var moved []*codepatch.Displacement
	for _, p := range places {
		moved = append(moved, p.Displacement)
	}
	lo, hi, err := codepatch.Reach(moved...)
	if err != nil {
		return nil, err
	}
	for _, hook := range hooks {
		lo, hi = max(lo, uint64(max(hook, hookReach)-hookReach)), min(hi, uint64(hook)+hookReach)
	}
	size := 0
	var bodies []func(uint64) []byte
	for _, p := range places {
		body := bodyFor(p)
		bodies = append(bodies, body)
		size += p.StubLen(len(body(uint64(hooks[0])))) + align
	}
	stubs, err := mapNear(lo, hi, size)
	if err != nil {
		return nil, err
	}
	ps := &patches{stubs: stubs, first: ^uintptr(0)}
	if err := ps.fill(places, bodies); err != nil {
		return nil, errors.Join(err, ps.unmap())
	}
	return ps, nil
}

// fill writes the stubs.
func (ps *patches) fill(places []place, bodies []func(uint64) []byte) error {
	at := uint64(addressOf(&ps.stubs[0]))
	end := at
	for i, p := range places {
		stub, err := p.Stub(end, bodies[i])
		if err != nil {
			return err
		}
		if bodies[i](end) == nil {
			return fmt.Errorf("%s: the hook is out of reach", p.name)
		}
		copy(ps.stubs[end-at:], stub)
		jump, err := p.Jump(end)
		if err != nil {
			return err
		}
		ps.add(uintptr(p.Start), jump, p.Old)
		end += uint64(len(stub)+align-1) &^ (align - 1)
	}
	return os.NewSyscallError("mprotect", syscall.Mprotect(ps.stubs, syscall.PROT_READ|syscall.PROT_EXEC))
}

func (ps *patches) add(to uintptr, jump, old []byte) {
	for _, l := range []struct {
		list  *[]patch
		bytes []byte
	}{{&ps.new, jump}, {&ps.old, old}} {
		p := patch{to: to, n: uint64(len(l.bytes))}
		copy(p.bytes[:], l.bytes)
		*l.list = append(*l.list, p)
	}
	page := uintptr(os.Getpagesize())
	ps.first = min(ps.first, to&^(page-1))
	ps.last = max(ps.last, (to+uintptr(len(jump))+page-1)&^(page-1))
}

// Commands of membarrier(2), and its number.
const (
	registerSyncCore = 1 << 6
	syncCore         = 1 << 5
)

var membarrierNumber = map[string]uintptr{"amd64": 324, "arm64": 283}[runtime.GOARCH]

func membarrier(command uintptr) error {
	if _, _, e := syscall.RawSyscall(membarrierNumber, command, 0, 0); e != 0 {
		return os.NewSyscallError("membarrier", e)
	}
	return nil
}

// apply writes the patches.
func (ps *patches) apply() error {
	if err := membarrier(registerSyncCore); err != nil {
		return err
	}
	return ps.write(ps.new)
}

// undo restores the code. While it is written, no thread is in a stub: a goroutine is never preempted there. So the stubs can be
// unmapped afterwards.
func (ps *patches) undo() error {
	if ps.written {
		if err := ps.write(ps.old); err != nil {
			return err
		}
	}
	return ps.unmap()
}

// write writes patches to the program's code. With one processor, and while pokeAll cannot be preempted, no other thread
// executes Go code: the code of allocators runs on processors only. Afterwards, every thread reads the new code before it goes
// on in user space.
func (ps *patches) write(list []patch) error {
	pages := unsafe.Slice((*byte)(pointerTo(ps.first)), ps.last-ps.first)
	if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return fmt.Errorf("the code cannot be made writable: %w", os.NewSyscallError("mprotect", err))
	}
	procs := runtime.GOMAXPROCS(1)
	ps.written = true
	pokeAll(&list[0], len(list))
	err := membarrier(syncCore)
	restoreProcs(procs)
	if e := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_EXEC); e != nil {
		err = errors.Join(err, os.NewSyscallError("mprotect", e))
	}
	return err
}

// mapNear maps memory between two addresses, as far up as there is room.
func mapNear(lo, hi uint64, size int) ([]byte, error) {
	maps, err := readMaps()
	if err != nil {
		return nil, err
	}
	page := uint64(os.Getpagesize())
	need := (uint64(size) + page - 1) &^ (page - 1)
	top := min(hi, 1<<47) &^ (page - 1)
	for i := len(maps) - 1; i >= -1; i-- {
		var start, end uint64 // of the mapping below the gap
		if i >= 0 {
			start, end = uint64(maps[i].start), uint64(maps[i].end)
		}
		if bottom := max(end, lo+page) + guard; bottom < top && top-bottom > need+guard {
			if p, err := mapAt(uintptr(top-need-guard)&^uintptr(page-1), uintptr(need)); err == nil {
				return p, nil
			}
		}
		top = min(top, start)
	}
	return nil, errors.New("no room for code near the runtime's")
}

// hookReach is less than how far a stub on amd64 can be from the hook.
const hookReach = 1<<31 - 1<<20

const guard = 1 << 16 // bytes between the stubs and other mappings

// mapAt maps writable memory at an address where there is none.
func mapAt(at, size uintptr) ([]byte, error) {
	const fixedNoReplace = 0x100000
	p, _, e := syscall.Syscall6(syscall.SYS_MMAP, at, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|fixedNoReplace, ^uintptr(0), 0)
	if e != 0 {
		return nil, os.NewSyscallError("mmap", e)
	}
	if p != at {
		return nil, errors.Join(errors.New("the kernel chose another address"), unmap(unsafe.Slice((*byte)(pointerTo(p)), size)))
	}
	return unsafe.Slice((*byte)(pointerTo(p)), size), nil
}

func unmap(memory []byte) error {
	if _, _, e := syscall.RawSyscall(syscall.SYS_MUNMAP, addressOf(&memory[0]), uintptr(len(memory)), 0); e != 0 {
		return os.NewSyscallError("munmap", e)
	}
	return nil
}
