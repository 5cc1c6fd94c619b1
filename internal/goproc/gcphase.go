package goproc

import (
	"encoding/binary"
	"fmt"
)

// GCTimes are the times at which the last collection entered its phases, on the clock of the runtime (runtime.nanotime), which is
// CLOCK_MONOTONIC. They are fields of runtime.work (runtime/mgc.go).
type GCTimes struct{ SweepTermination, Mark, MarkTermination, End int64 }

// gcTimesSize is the size of the fields, which are neighbours in all releases.
const gcTimesSize = 32

// Phases of a collection, as in runtime/mgc.go.
const (
	phaseSweepTermination = "sweep termination"
	phaseMark             = "mark"
	phaseMarkTermination  = "mark termination"
)

// Phase returns the phase of the collection at the time at which the times were read, or the empty string if none was in
// progress. While mark termination is found to be too early and marking goes on, it is mark termination.
func (t GCTimes) Phase() string {
	switch begin := t.SweepTermination; {
	case t.End >= begin:
		return ""
	case t.MarkTermination >= begin:
		return phaseMarkTermination
	case t.Mark >= begin:
		return phaseMark
	default:
		return phaseSweepTermination
	}
}

// GCTimesAddr returns the address of the times in the memory of the process: four words. The error wraps ErrLayout if they could
// not be found.
func (p *Process) GCTimesAddr() (uint64, error) {
	work := p.main.bin.Globals().Work
	if work == 0 {
		return 0, fmt.Errorf("process %d: %w: the address of runtime.work could not be found", p.pid, ErrLayout)
	}
	var first uint64
	for i, name := range []string{"tSweepTerm", "tMark", "tMarkTerm", "tEnd"} {
		off, err := p.layout.Offset("runtime.workType." + name)
		if err != nil {
			return 0, fmt.Errorf("process %d: %w: %w", p.pid, ErrLayout, err)
		}
		if i == 0 {
			first = off
		}
		if off != first+8*uint64(i) {
			return 0, fmt.Errorf("process %d: %w: runtime.work.%s is not where it is expected", p.pid, ErrLayout, name)
		}
	}
	return work + p.main.bias + first, nil
}

// ReadGCTimes reads the times from the address that GCTimesAddr has returned.
func (p *Process) ReadGCTimes(addr uint64) (GCTimes, error) {
	var b [gcTimesSize]byte
	if err := p.mem.read(b[:], addr); err != nil {
		return GCTimes{}, err
	}
	word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return GCTimes{word(0), word(1), word(2), word(3)}, nil
}
