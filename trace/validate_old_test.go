package trace

import (
	"bytes"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// TestValidateOldMutations changes traces of before Go 1.22.
func TestValidateOldMutations(t *testing.T) {
	for _, m := range []struct {
		name    string
		code    Code
		warning bool
		change  func(e *oldEdit) int
	}{
		{"string 0", CodeZeroID, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1String)
			e.events[i+1].Args[0] = 0
			return i + 1
		}},
		{"a string twice", CodeDuplicateString, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1String)
			e.insert(i+1, *e.events[i].Clone())
			return i + 1
		}},
		{"a string without content", CodeCutOff, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1String)
			s := *e.events[i].Clone()
			s.Args[0], s.Data = 5000, nil
			e.insert(i+1, s)
			return i + 1
		}},
		{"a long string", CodeLongString, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1String)
			e.events[i].Data = make([]byte, 1e6+1)
			return i
		}},
		{"a stack that does not exist", CodeUnknownStack, true, func(e *oldEdit) int {
			i := e.find(raw.EvV1GoBlockSend)
			e.events[i].Args[1] = 9999
			return i
		}},
		{"a task's name does not exist", CodeUnknownString, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1UserTaskCreate)
			e.events[i].Args[3] = 9999
			return i
		}},
		{"a frame's file does not exist", CodeUnknownString, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1Stack)
			e.events[i].Frames[0].File = 9999
			return i
		}},
		{"a stack twice", CodeDuplicateStack, true, func(e *oldEdit) int {
			i := e.find(raw.EvV1Stack)
			e.insert(i+1, *e.events[i].Clone())
			return i + 1
		}},
		{"frequency 0", CodeBadSync, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1Frequency)
			e.events[i].Args[0] = 0
			return i
		}},
		{"no frequency", CodeNoFrequency, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1Frequency)
			e.events = append(e.events[:i:i], e.events[i+1:]...)
			return -1
		}},
		{"a batch of a P that cannot be", CodeUnknownProc, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1Batch)
			e.events[i].Args[0] = 1 << 40
			return i
		}},
		{"an event before the first batch", CodeFraming, false, func(e *oldEdit) int {
			e.insert(0, *e.events[e.find(raw.EvV1HeapAlloc)].Clone())
			return 0
		}},
		{"a goroutine that ends twice", CodeRefused, false, func(e *oldEdit) int {
			i := e.find(raw.EvV1GoEnd)
			e.insert(i+1, *e.events[i].Clone())
			return -2
		}},
	} {
		for _, release := range []string{"1.18.10", "1.21.13"} {
			t.Run(m.name+" in Go "+release, func(t *testing.T) {
				e := newOldEdit(t, tinyTrace(t, release))
				at := m.change(e)
				data, offsets := e.wire()
				want := int64(len(data))
				switch {
				case at >= 0:
					want = offsets[at]
				case at == -2:
					want = 0
				}
				report, err := Validate(bytes.NewReader(data), ValidateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				severity := Error
				if m.warning {
					severity = Warning
				}
				if len(report.Counts) != 1 || len(report.Problems) == 0 || report.Problems[0].Code != m.code || report.Problems[0].Severity != severity {
					t.Fatalf("%v: %+v", report, report.Problems)
				}
				if p := &report.Problems[0]; p.Offset != want {
					t.Errorf("%v, want offset %d", p, want)
				}
				if refused := refusal(data); (refused != nil) != (severity == Error) {
					t.Errorf("the toolchain's reader says %v", refused)
				}
			})
		}
	}
}

// TestValidateOldDamage damages traces of before Go 1.22.
func TestValidateOldDamage(t *testing.T) {
	data := tinyTrace(t, "1.20.14")
	for _, tt := range []struct {
		name string
		data []byte
		code Code
	}{
		{"cut off", data[:len(data)-3], CodeTruncated},
		{"garbage", append(bytes.Clone(data[:headerSize]), bytes.Repeat([]byte{0xff}, 50)...), CodeFraming},
	} {
		report, err := Validate(bytes.NewReader(tt.data), ValidateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if report.Valid() || report.Problems[0].Code != tt.code {
			t.Errorf("%s: %v: %+v", tt.name, report, report.Problems)
		}
		r, err := NewReader(bytes.NewReader(tt.data))
		if err != nil {
			t.Fatal(err)
		}
		var got error
		for _, got = range r.Events() {
		}
		if got == nil || strings.Contains(got.Error(), "\n") {
			t.Errorf("%s: Reader: %v", tt.name, got)
		}
	}
}

// TestReaderOldDepth gives the toolchain's reader a trace for which it would call itself without an end.
func TestReaderOldDepth(t *testing.T) {
	e := newOldEdit(t, tinyTrace(t, "1.18.10"))
	i := e.find(raw.EvV1GoCreate)
	list := append([]raw.Event{}, e.events[:i+1]...)
	for g := range uint64(200_001) { // one more than is supported
		ev := *e.events[i].Clone()
		ev.Args[1] = 1000 + g
		list = append(list, ev)
	}
	e.events = append(list, e.events[i+1:]...)
	data, _ := e.wire()
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range r.Events() {
	}
	if err == nil || !strings.Contains(err.Error(), "in a row") {
		t.Errorf("%v", err)
	}
}

// TestReaderOldOrder reads a trace that begins with several runnable goroutines, which the toolchain's reader tells in
// another order each time.
func TestReaderOldOrder(t *testing.T) {
	e := newOldEdit(t, smallOldTrace(t, raw.Go119))
	i := e.find(raw.EvV1GoCreate)
	const first, count = 1000, 20
	for g := range uint64(count) {
		ev := *e.events[i].Clone()
		ev.Args[1] = first + (g*7)%count
		e.insert(i, ev)
	}
	data, _ := e.wire()
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var got []event.Event
	last := int64(0)
	for ev, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Time <= last {
			t.Errorf("g %d at %d, after %d", ev.G, ev.Time, last)
		}
		last = ev.Time
		if ev.G >= first {
			got = append(got, *ev)
		}
	}
	if len(got) != count {
		t.Fatalf("%d goroutines, want %d", len(got), count)
	}
	for i, ev := range got {
		if ev.G != first+uint64(i) || ev.Kind != event.GoStatus || ev.State != event.StateRunnable {
			t.Errorf("event %d: %+v, want the status of g %d", i, ev, first+i)
		}
	}
}

// An oldEdit is a trace of before Go 1.22 that is being changed event by event.
type oldEdit struct {
	t      *testing.T
	events []raw.Event
	v      raw.Version
}

func newOldEdit(t *testing.T, data []byte) *oldEdit {
	t.Helper()
	e := newTraceEdit(t, data)
	return &oldEdit{t, e.events, e.version}
}

func (e *oldEdit) find(typ raw.Type) int {
	e.t.Helper()
	for i := range e.events {
		if e.events[i].Type == typ {
			return i
		}
	}
	e.t.Fatalf("no event of type %d", typ)
	return -1
}

func (e *oldEdit) insert(at int, ev raw.Event) {
	e.events = append(e.events[:at:at], append([]raw.Event{ev}, e.events[at:]...)...)
}

// wire returns the trace and the offset of each event.
func (e *oldEdit) wire() (data []byte, offsets []int64) {
	e.t.Helper()
	var out bytes.Buffer
	w, err := raw.NewWriter(&out, e.v)
	if err != nil {
		e.t.Fatal(err)
	}
	for i := range e.events {
		if err := w.Flush(); err != nil {
			e.t.Fatal(err)
		}
		offsets = append(offsets, int64(out.Len()))
		if err := w.WriteEvent(&e.events[i]); err != nil {
			e.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		e.t.Fatal(err)
	}
	return out.Bytes(), offsets
}
