package probe

import (
	"bytes"
	"reflect"
	"testing"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// names names addresses by their number.
type names struct{}

func (names) Frames(pcs []uint64, _ uint64) []event.Frame {
	frames := make([]event.Frame, len(pcs))
	for i, pc := range pcs {
		frames[i].Line = int(pc)
	}
	return frames
}

func (names) Origin(gopc, startpc uint64) event.Origin {
	return event.Origin{CreatedBy: event.Frame{Line: int(gopc)}, Start: event.Frame{Line: int(startpc)}}
}

func testDecoder() *decoder {
	return &decoder{
		names: names{}, newEpoch: func() {}, pid: 7, offset: 1000, kinds: event.KindsAll,
		waitReasons: []string{"", "chan receive", "coroutine"}, traceReasons: []string{"unspecified", "sync"},
		lockOffset: 88, stacks: map[uint64]*event.Stack{}, origins: map[originKey]*event.Origin{},
	}
}

// bytesOf returns a record as an engine brings it.
func bytesOf[T any](r T) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
}

// decodeAll decodes records one after the other.
func decodeAll(d *decoder, records ...[]byte) []event.Event {
	var events []event.Event
	for _, raw := range records {
		d.decode(raw, func(ev *event.Event) bool {
			events = append(events, *ev)
			return true
		})
	}
	return events
}

func TestDecode(t *testing.T) {
	stack := csrc.Stack{R: csrc.Record{Kind: csrc.KindStack, Stack: 99, Value: 2}}
	stack.Pcs[0], stack.Pcs[1] = 11, 12
	frames := []event.Frame{{Line: 11}, {Line: 12}}
	record := func(kind event.Kind, more csrc.Record) csrc.Record {
		more.Time, more.Kind, more.Tid = 5, uint8(kind), 3
		return more
	}
	for _, test := range []struct {
		name    string
		records [][]byte
		want    []event.Event
	}{
		{"block with a stack",
			[][]byte{bytesOf(stack), bytesOf(record(event.GoBlock, csrc.Record{G: 8, Reason: 1, TraceReason: 1, Arg: 188, Stack: 99}))},
			[]event.Event{{Kind: event.GoBlock, G: 8, Reason: "chan receive", TraceReason: "sync", Object: 100, Stack: &event.Stack{Frames: frames}}}},
		{"a stack that was lost", [][]byte{bytesOf(record(event.GoStop, csrc.Record{G: 8, Stack: 98, Flags: csrc.FlagPreempted}))},
			[]event.Event{{Kind: event.GoStop, G: 8, Reason: event.StopPreempted}}},
		{"creation", [][]byte{bytesOf(csrc.Create{R: record(event.GoCreate, csrc.Record{G: 9, Arg: 8}), Gopc: 21, Startpc: 22})},
			[]event.Event{{Kind: event.GoCreate, G: 9, Parent: 8, Origin: &event.Origin{CreatedBy: event.Frame{Line: 21}, Start: event.Frame{Line: 22}}}}},
		{"an unknown reason", [][]byte{bytesOf(record(event.GoBlock, csrc.Record{G: 8, Reason: 77}))},
			[]event.Event{{Kind: event.GoBlock, G: 8, Reason: "unknown wait reason 77", TraceReason: "unspecified"}}},
		{"a coroutine hands over", [][]byte{bytesOf(csrc.Record{Time: 5, Tid: 3, Kind: csrc.KindSwitch, G: 1, Arg: 2, Reason: 2})},
			[]event.Event{{Kind: event.GoBlock, G: 1, Reason: "coroutine"}, {Kind: event.GoUnblock, G: 2, By: 1}, {Kind: event.GoStart, G: 2}}},
		{"a coroutine ends", [][]byte{bytesOf(csrc.Record{Time: 5, Tid: 3, Kind: csrc.KindSwitch, G: 1, Arg: 2, Flags: csrc.FlagSwitchExit})},
			[]event.Event{{Kind: event.GoDestroy, G: 1}, {Kind: event.GoUnblock, G: 2, By: 1}, {Kind: event.GoStart, G: 2}}},
		{"loss", [][]byte{bytesOf(record(event.GoStart, csrc.Record{G: 8, Lost: 3})), bytesOf(record(event.GoStart, csrc.Record{G: 8, Lost: 3}))},
			[]event.Event{{Kind: event.Lost, Value: 3}, {Kind: event.GoStart, G: 8}, {Kind: event.GoStart, G: 8}}},
		{"loss without a number", [][]byte{bytesOf(record(event.Lost, csrc.Record{Lost: 3})), bytesOf(record(event.GoStart, csrc.Record{G: 8}))},
			[]event.Event{{Kind: event.Lost}, {Kind: event.GoStart, G: 8}}},
		{"cut off", [][]byte{{1, 2, 3}, bytesOf(record(event.GoCreate, csrc.Record{G: 9}))}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := decodeAll(testDecoder(), test.records...)
			if len(got) != len(test.want) {
				t.Fatalf("%+v, want %+v", got, test.want)
			}
			for i, want := range test.want {
				want.Time, want.PID = 1005, 7
				if want.Kind != event.Lost {
					want.TID = 3
				}
				if !reflect.DeepEqual(got[i], want) {
					t.Errorf("%+v, want %+v", got[i], want)
				}
			}
		})
	}
}

// TestStacksAnew fills the table of stacks: those on their way are still known, and the probes are told to send all anew.
func TestStacksAnew(t *testing.T) {
	d, epochs := testDecoder(), 0
	d.newEpoch = func() { epochs++ }
	for id := range uint64(maxStacks + 1) {
		d.decode(bytesOf(csrc.Stack{R: csrc.Record{Kind: csrc.KindStack, Stack: id + 1}}), nil)
	}
	if epochs != 1 || len(d.stacks) != 1 || d.stack(1) == nil || d.stack(maxStacks+1) == nil {
		t.Errorf("%d new epochs, %d stacks", epochs, len(d.stacks))
	}
}

// FuzzDecode decodes what no probe sends.
func FuzzDecode(f *testing.F) {
	f.Add(bytesOf(csrc.Record{Kind: uint8(event.GoBlock), G: 1, Reason: 200, Stack: 5}))
	f.Add(bytesOf(csrc.Create{R: csrc.Record{Kind: uint8(event.GoCreate), G: 1}}))
	f.Add(bytesOf(csrc.Stack{R: csrc.Record{Kind: csrc.KindStack, Value: 1 << 40}}))
	f.Add(noteBytes(textBytes(3, 0, 3, "abc")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		words := make([]uint64, (len(raw)+7)/8) // records are aligned
		aligned := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:len(raw)]
		copy(aligned, raw)
		d := testDecoder()
		d.sets, d.noted = []*Set{{Decode: func(n *Note) {
			for n.More() {
				n.Text()
			}
		}}}, make([]SetCounts, 1)
		for _, ev := range decodeAll(d, aligned, aligned) {
			_ = ev.Kind.String()
		}
	})
}

// TestBacklog gives back what was put in, in order, whatever the sizes.
func TestBacklog(t *testing.T) {
	b := &backlog{}
	var want [][]byte
	for i := range 3000 {
		raw := bytes.Repeat([]byte{byte(i)}, i%1100)
		want = append(want, raw)
		if !b.add(raw) {
			t.Fatal("no room")
		}
	}
	for range 2 {
		n := 0
		b.drain(func(raw []byte) bool {
			if !bytes.Equal(raw, want[n]) {
				t.Fatalf("record %d is %v, want %v", n, raw, want[n])
			}
			n++
			return true
		})
		if n != len(want) {
			t.Errorf("%d records, want %d", n, len(want))
		}
	}
}

// TestDecodeSystem leaves out what goroutines of the runtime do, but not what they do to the whole program.
func TestDecodeSystem(t *testing.T) {
	d := testDecoder()
	d.hide(4)
	var kinds []event.Kind
	for _, kind := range []event.Kind{event.GoStart, event.GCBegin, event.STWBegin, event.STWEnd, event.GCEnd, event.GoStop} {
		for _, ev := range decodeAll(d, bytesOf(csrc.Record{Time: 5, Kind: uint8(kind), G: 4})) {
			kinds = append(kinds, ev.Kind)
		}
	}
	if want := []event.Kind{event.GCBegin, event.STWBegin, event.STWEnd, event.GCEnd}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("%v are told, want %v", kinds, want)
	}
}

// TestClearEvent fills each field of an event there is: none is left.
func TestClearEvent(t *testing.T) {
	var ev event.Event
	v := reflect.ValueOf(&ev).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("text")
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Uint8, reflect.Uint64:
			f.SetUint(7)
		default:
			f.SetInt(7)
		}
	}
	if clearEvent(&ev); ev != (event.Event{}) {
		t.Errorf("left: %+v", ev)
	}
}
