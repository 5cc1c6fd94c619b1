package inline

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// places are the places that an engine has patched in a process. They detect when another tracer sets a breakpoint there,
// and when it is removed.
type places struct {
	pid   int
	edits []ptrace.Edit
	names []string
	size  int // of all edits
	now   []byte
	local []unix.Iovec
	from  []unix.RemoteIovec

	mu       sync.Mutex
	states   []placeState
	missing  bool // events may be missing, and no Lost event says so yet
	warnings []event.Warning
}

// placeState is the effect of another tracer on a place.
type placeState uint8

const (
	placeOurs     placeState = iota
	placeForeign             // a breakpoint is there
	placeOriginal            // a breakpoint was removed, and the kernel has restored the original code
)

// searchEvery is the interval between checks of the places.
const searchEvery = time.Second

func newPlaces(pid int, edits []ptrace.Edit, names []string) *places {
	p := &places{pid: pid, edits: edits, names: names, states: make([]placeState, len(edits))}
	for _, e := range edits {
		p.from = append(p.from, unix.RemoteIovec{Base: uintptr(e.Addr), Len: len(e.New)})
		p.size += len(e.New)
	}
	p.now = make([]byte, p.size)
	p.local = []unix.Iovec{{Base: &p.now[0], Len: uint64(p.size)}}
	return p
}

// look reads the code at all places. It does nothing if the process has exited or executed another program, or if unless
// reports that the places are no longer patched.
func (p *places) look(unless func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := unix.ProcessVMReadv(p.pid, p.local, p.from, 0)
	if err != nil || n != p.size || unless() {
		return
	}
	var came, gone, lost []string
	at := 0
	for i, e := range p.edits {
		now := p.now[at : at+len(e.New)]
		at += len(e.New)
		before := p.states[i]
		p.states[i] = stateOf(e, now)
		p.missing = p.missing || p.states[i] == placeForeign || p.states[i] != before
		if p.states[i] == before {
			continue
		}
		switch p.states[i] {
		case placeForeign:
			came = append(came, p.names[i])
		case placeOriginal:
			lost = append(lost, p.names[i])
		default:
			gone = append(gone, p.names[i])
		}
	}
	p.warn(came, "another tracer has a breakpoint at %s: events there are missing until it is removed")
	p.warn(gone, "the breakpoint of another tracer at %s was removed: events there are reported again")
	p.warn(lost, "the breakpoint of another tracer at %s was removed together with the probe: events there are missing until Loupe attaches again")
}

// maxNotes bounds the warnings about breakpoints of other tracers. One more warning says that others were omitted.
const maxNotes = 32

func (p *places) warn(names []string, format string) {
	switch {
	case len(names) == 0 || len(p.warnings) > maxNotes:
	case len(p.warnings) == maxNotes:
		p.warnings = append(p.warnings, event.Warnf(event.WarnMissing, "breakpoints of other tracers change too often; further changes are not listed"))
	default:
		p.warnings = append(p.warnings, event.Warnf(event.WarnMissing, format, strings.Join(names, ", ")))
	}
}

// stateOf returns the state of the place of an edit.
func stateOf(e ptrace.Edit, now []byte) placeState {
	switch _, breakpoint, ok := restored(runtime.GOARCH, e, now); {
	case bytes.Equal(now, e.New), !ok:
		return placeOurs
	case breakpoint:
		return placeForeign
	}
	return placeOriginal
}

// takeMissing reports once whether events may be missing. p may be nil.
func (p *places) takeMissing() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	missing := p.missing
	p.missing = false
	return missing
}

func (p *places) noted() []event.Warning {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.warnings)
}
