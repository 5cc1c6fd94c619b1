package tracev1

import (
	"bytes"
	"fmt"
	"io"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/raw"
)

// A wholeTrace is a trace of before Go 1.22 in memory.
type wholeTrace struct {
	data []byte
	// events, strings and the others count what is in data.
	events, strings, stacks, frames, samples, goroutines int64

	pcs map[uint64]struct{}
	// row counts the events in a row of a P that the toolchain's reader calls itself for, longest has the most of each P, and
	// deep is their sum.
	row, longest map[uint64]int
	deep         int
}

// What an event of before Go 1.22 takes in the toolchain's reader, and a byte of the trace: it is read into memory twice,
// growing.
const (
	eventMemory = 72
	byteMemory  = 5
)

// memory returns about how many bytes the trace takes when it is read.
func (o *wholeTrace) memory() int64 {
	return int64(len(o.data))*byteMemory + o.events*eventMemory + o.strings*memory.String + o.stacks*memory.Stack +
		o.frames*memory.Frame + int64(len(o.pcs))*memory.PC + o.samples*memory.Sample + o.goroutines*memory.Goroutine
}

// add counts an event.
func (o *wholeTrace) add(ev *raw.Event, p uint64) {
	o.events++
	switch ev.Type {
	case raw.EvV1String:
		o.strings++
		return
	case raw.EvV1Stack:
		o.stacks++
		o.frames += int64(len(ev.Frames))
		for _, f := range ev.Frames {
			o.pcs[f.PC] = struct{}{}
		}
		return
	case raw.EvV1GoCreate, raw.EvV1GoSysBlock:
		o.goroutines++
		if o.row[p]++; o.row[p] > o.longest[p] {
			o.longest[p]++
			o.deep++
		}
		return
	case raw.EvV1CPUSample:
		o.samples++
	case raw.EvV1UserLog:
		o.strings++
	}
	o.row[p] = 0
}

// readWhole reads a trace of before Go 1.22 from where its header ends. It stops where the trace cannot be read on, and
// returns the raw.SyntaxError, a memory.Error or the error of the underlying reader with what precedes.
func readWhole(in *generation.Input, v raw.Version, limit int64) (*wholeTrace, error) {
	o := &wholeTrace{pcs: map[uint64]struct{}{}, row: map[uint64]int{}, longest: map[uint64]int{}}
	r, err := raw.NewReader(io.TeeReader(io.MultiReader(&header{v: v}, in.Rest()), o))
	if err != nil {
		return o, err
	}
	var ev raw.Event
	for p := uint64(0); ; {
		err := r.ReadEvent(&ev)
		switch {
		case err == io.EOF:
			return o, nil
		case err != nil:
			return o, err
		case ev.Type == raw.EvV1Batch:
			p = ev.Args[0]
		}
		if o.add(&ev, p); o.events%1024 == 0 && o.memory() > limit {
			return o, &memory.Error{Version: v, Limit: limit, Offset: r.Offset()}
		}
	}
}

// Write keeps what was read.
func (o *wholeTrace) Write(b []byte) (int, error) {
	o.data = append(o.data, b...)
	return len(b), nil
}

// open opens the trace with the toolchain's reader, which calls itself once for each of the events in a row that it has no
// counterpart for. A program whose stack is full cannot be saved, so a trace with too many of them is refused.
func (o *wholeTrace) open() (*trace.Reader, error) {
	if o.deep > maxRow {
		return nil, fmt.Errorf("traces with more than %d goroutines created in a row are not supported", maxRow)
	}
	return trace.NewReader(bytes.NewReader(o.data))
}

// maxRow bounds how often the toolchain's reader calls itself.
const maxRow = 200_000

// header is the header of a trace.
type header struct {
	v    raw.Version
	done int
}

func (h *header) Read(b []byte) (int, error) {
	header := fmt.Appendf(nil, "go 1.%d trace\x00\x00\x00", h.v)
	if h.done == len(header) {
		return 0, io.EOF
	}
	n := copy(b, header[h.done:])
	h.done += n
	return n, nil
}
