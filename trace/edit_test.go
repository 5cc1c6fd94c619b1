package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

// headerSize is the size of a trace's header.
const headerSize = 16

// tinyTrace returns one of the traces in testdata/tiny.
func tinyTrace(tb testing.TB, release string) []byte {
	tb.Helper()
	file, err := os.Open(filepath.Join("testdata", "tiny", "go"+release+".trace.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// tinyReleases returns the releases of the traces in testdata/tiny.
func tinyReleases(tb testing.TB) []string {
	tb.Helper()
	names, err := filepath.Glob("testdata/tiny/*.gz")
	if err != nil || len(names) < 7 {
		tb.Fatalf("traces in testdata/tiny: %v, %v", names, err)
	}
	for i, name := range names {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "go"), ".trace.gz")
	}
	return names
}

// A traceEdit is a trace that is being changed event by event.
type traceEdit struct {
	t       testing.TB
	version raw.Version
	events  []raw.Event
	// bytes replaces what an event is on the wire.
	bytes map[*uint64][]byte
	// sizes replaces what a batch says of its size, by the batch's index.
	sizes map[int]uint64
}

// newTraceEdit takes a trace apart.
func newTraceEdit(t testing.TB, data []byte) *traceEdit {
	t.Helper()
	r, err := raw.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	e := &traceEdit{t: t, version: r.Version(), sizes: map[int]uint64{}}
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		e.events = append(e.events, *ev.Clone())
	}
	return e
}

// find returns the index of the first event from an index on that is of a type and matches; match may be nil.
func (e *traceEdit) find(from int, typ raw.Type, match func(i int, ev *raw.Event) bool) int {
	e.t.Helper()
	for i := from; i < len(e.events); i++ {
		if ev := &e.events[i]; ev.Type == typ && (match == nil || match(i, ev)) {
			return i
		}
	}
	e.t.Fatalf("no event of type %d matches", typ)
	return -1
}

// last is find for the last event.
func (e *traceEdit) last(typ raw.Type, match func(i int, ev *raw.Event) bool) int {
	e.t.Helper()
	for i := len(e.events) - 1; i >= 0; i-- {
		if ev := &e.events[i]; ev.Type == typ && (match == nil || match(i, ev)) {
			return i
		}
	}
	e.t.Fatalf("no event of type %d matches", typ)
	return -1
}

// insert puts events before the one with an index.
func (e *traceEdit) insert(at int, events ...raw.Event) {
	list := append([]raw.Event{}, e.events[:at]...)
	list = append(list, events...)
	e.events = append(list, e.events[at:]...)
}

// remove takes an event out.
func (e *traceEdit) remove(at int) { e.events = append(e.events[:at:at], e.events[at+1:]...) }

// ev makes an event. Those with a time get dt=1 before the arguments.
func (e *traceEdit) ev(typ raw.Type, args ...uint64) raw.Event {
	e.t.Helper()
	ev := raw.Event{Version: e.version, Type: typ, Args: args}
	spec := ev.Spec()
	if spec == nil {
		e.t.Fatalf("%v has no event %d", e.version, typ)
	}
	if spec.Timed {
		ev.Args = append([]uint64{1}, args...)
	}
	if len(ev.Args) != len(spec.Args) {
		e.t.Fatalf("%s with %d arguments", spec.Name, len(args))
	}
	return ev
}

// batchOf returns the index of the batch that an event is in.
func (e *traceEdit) batchOf(i int) int {
	for e.events[i].Type != raw.EvEventBatch {
		i--
	}
	return i
}

// generationOf returns the generation of an event.
func (e *traceEdit) generationOf(i int) uint64 { return e.events[e.batchOf(i)].Args[0] }

// newBatch appends a batch of a new thread to the last generation, with times after all of it. It returns the index of the
// batch.
func (e *traceEdit) newBatch(thread uint64, events ...raw.Event) int {
	e.t.Helper()
	at := len(e.events)
	if e.version >= raw.Go126 {
		at = e.last(raw.EvEndOfGeneration, nil)
	}
	last := e.last(raw.EvEventBatch, nil)
	late := uint64(0)
	for i := range e.events {
		if ev := &e.events[i]; ev.Type == raw.EvEventBatch {
			late = max(late, ev.Args[2])
		}
	}
	batch := e.ev(raw.EvEventBatch, e.events[last].Args[0], thread, late+1<<20, 0)
	e.insert(at, append([]raw.Event{batch}, events...)...)
	return at
}

// wire returns the trace, and the offset of each event in it. Sizes of batches are calculated.
func (e *traceEdit) wire() (data []byte, offsets []int64) {
	data = fmt.Appendf(nil, "go 1.%d trace\x00\x00\x00", e.version)
	offsets = make([]int64, len(e.events))
	for i := 0; i < len(e.events); {
		if e.events[i].Type != raw.EvEventBatch {
			offsets[i] = int64(len(data))
			data = e.append(data, i)
			i++
			continue
		}
		var content []byte
		var within []int
		j := i + 1
		for ; j < len(e.events) && !startsBatch(e.events[j].Type); j++ {
			within = append(within, len(content))
			content = e.append(content, j)
		}
		offsets[i] = int64(len(data))
		size, ok := e.sizes[i]
		if !ok {
			size = uint64(len(content))
		}
		e.events[i].Args[3] = size
		data = e.append(data, i)
		for k, at := range within {
			offsets[i+1+k] = int64(len(data) + at)
		}
		data = append(data, content...)
		i = j
	}
	return data, offsets
}

func startsBatch(t raw.Type) bool {
	return t == raw.EvEventBatch || t == raw.EvExperimentalBatch || t == raw.EvEndOfGeneration
}

// append appends an event in the wire format.
func (e *traceEdit) append(b []byte, i int) []byte {
	ev := &e.events[i]
	if len(ev.Args) > 0 {
		if replaced, ok := e.bytes[&ev.Args[0]]; ok {
			return append(b, replaced...)
		}
	}
	b = append(b, byte(ev.Type))
	for _, x := range ev.Args {
		b = binary.AppendUvarint(b, x)
	}
	for _, f := range ev.Frames {
		for _, x := range [4]uint64{f.PC, f.Func, f.File, f.Line} {
			b = binary.AppendUvarint(b, x)
		}
	}
	if ev.Spec().HasData {
		b = binary.AppendUvarint(b, uint64(len(ev.Data)))
		b = append(b, ev.Data...)
	}
	return b
}

// replace makes an event other bytes on the wire.
func (e *traceEdit) replace(i int, with ...byte) {
	if e.bytes == nil {
		e.bytes = map[*uint64][]byte{}
	}
	e.bytes[&e.events[i].Args[0]] = with
}

// encoded returns the bytes of an event.
func (e *traceEdit) encoded(i int) []byte { return e.append(nil, i) }

func TestTraceEdit(t *testing.T) {
	for _, release := range tinyReleases(t) {
		data := tinyTrace(t, release)
		e := newTraceEdit(t, data)
		if e.version.V1() {
			continue
		}
		wire, offsets := e.wire()
		again := newTraceEdit(t, wire)
		if len(again.events) != len(e.events) || len(offsets) != len(e.events) {
			t.Fatalf("%s: %d events became %d", release, len(e.events), len(again.events))
		}
		if report, err := Validate(bytes.NewReader(wire), ValidateOptions{}); err != nil || len(report.Problems) > 0 {
			t.Errorf("%s: unchanged, it is %v, %v: %v", release, report, err, report.Problems)
		}
	}
}
