package inline

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
	"github.com/loupe-go/loupe/internal/testsets/parcel"
	"github.com/loupe-go/loupe/internal/testsets/tally"
)

// newSetWorld makes a world with the sets parcel and tally, for structs with the fields of the first version of the library.
func newSetWorld(t testing.TB, change ...func(*Options)) *world {
	const cells = 16
	w := newWorld(t, func(o *Options) {
		for _, f := range change {
			f(o)
		}
		o.Sets = append(o.Sets, madeUpSet("parcel", parcel.Code(), len(csrc.Runtime.Probes)),
			madeUpSet("tally", tally.Code(), len(csrc.Runtime.Probes)+1))
		o.Sets[1].Kind, o.Sets[2].Kind = csrc.KindSet, csrc.KindSet+1
		for i, name := range parcel.Code().Settings {
			o.Sets[1].Settings[i] = map[string]uint64{"label": 16, "next": 32, "to": 8, "city": 16}[name]
		}
		o.Sets[2].Tables = []csrc.Table{{Mask: cells - 1, Values: 1}}
		o.Geometry.Tables = 8 + cells*3*8
		o.PID = uint64(os.Getpid())
	})
	w.region.AllowReads(true)
	return w
}

// TestNotes hits a probe that follows pointers of a library, good ones and bad ones: no bad one faults.
func TestNotes(t *testing.T) {
	w := newSetWorld(t)
	th := w.thread(7, 1234, 1)
	body := w.body(Place{Set: 1, Probe: 0, G: gRegister})
	const cut, unreadable, impossible = 1, 2, 4
	parcel, to, city, text := w.object(64), w.object(64), w.object(64), w.object(16)
	local, remote := make([]byte, 8), make([]byte, 8)
	if _, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &local[0], Len: 8}},
		[]unix.RemoteIovec{{Base: uintptr(addressOf(remote)), Len: 8}}, 0); err != nil {
		th.args(0, parcel).hit(body) // an emulator may lack the call
		if events, _ := w.events(); len(events) != 1 || events[0].Flags != unreadable {
			t.Errorf("process_vm_readv: %v; %+v", err, events)
		}
		return
	}
	good := func() {
		for _, s := range []uint64{parcel + 16, to, city} {
			put(s, text)
			put(s+8, 5)
		}
		put(text, binary.LittleEndian.Uint64([]byte("hello...")))
		put(parcel+8, to)
		put(to+16, city)
	}
	for _, c := range []struct {
		name  string
		bad   func()
		flags uint8
		words int // of the payload
	}{
		{"good", func() {}, 0, 10},
		{"no label", func() { put(parcel+16, 0); put(parcel+24, 0) }, 0, 9},
		{"label at the end of memory", func() { put(parcel+24, 16) }, 0, 11},
		{"label beyond the end of memory", func() { put(parcel+24, 17) }, unreadable, 9},
		{"huge label", func() { put(parcel+24, 1<<40) }, unreadable, 9}, // its first 64 bytes are beyond the end, too
		{"negative length", func() { put(parcel+24, 1<<63) }, impossible, 9},
		{"address of the kernel", func() { put(parcel+16, 1<<63) }, unreadable, 9},
		{"no address", func() { put(parcel+8, 0) }, unreadable, 8},
		{"wild address", func() { put(parcel+8, 0xdead_beef_0000) }, unreadable, 8},
		{"ring", func() { put(parcel+32, parcel) }, cut, 40},
	} {
		good()
		put(parcel+32, 0)
		c.bad()
		th.args(0, parcel).hit(body)
		events, _ := w.events()
		if len(events) != 1 {
			t.Fatalf("%s: %d records", c.name, len(events))
		}
		if e := events[0]; e.Kind != csrc.KindSet || e.G != 7 || e.Flags != c.flags || len(e.raw) != int(recordSize)+8*c.words || int(e.Words)*8 != len(e.raw) {
			t.Errorf("%s: %+v in %d bytes, want flags %b and %d words of payload", c.name, e.Record, len(e.raw), c.flags, c.words)
		}
	}
	w.region.AllowReads(false)
	th.hit(body)
	if events, _ := w.events(); len(events) != 1 || events[0].Flags != unreadable {
		t.Errorf("reads are not allowed: %+v", events)
	}
	if out := th.r.Out[trampoline.SP]; out != th.r.In[trampoline.SP] {
		t.Errorf("the stack pointer moved by %d", int64(out-th.r.In[trampoline.SP]))
	}
}

// TestTables counts by keys on threads with lanes of their own: the reader adds them up, and what did not fit.
func TestTables(t *testing.T) {
	w := newSetWorld(t)
	body := w.body(Place{Set: 2, Probe: 0, G: gRegister})
	hits := uint64(0)
	for proc := range uint32(2) {
		th := w.thread(7, 1234, proc)
		for key := range uint64(40) {
			for range 3 {
				th.args(0, key, 10).hit(body)
				hits++
			}
		}
	}
	got := w.region.Table(csrc.Table{Mask: 15, Values: 1}, 0)
	sum := got.Overflow
	for key, c := range got.Keys {
		if key >= 40 || c.Counted != 6 || c.Values[0] != 60 {
			t.Errorf("key %d: %+v, want 6 that add up to 60", key, c)
		}
		sum += c.Counted
	}
	if len(got.Keys) != 16 || sum != hits {
		t.Errorf("%d keys, %d hits, want 16 and %d", len(got.Keys), sum, hits)
	}
	if events, _ := w.events(); len(events) > 0 {
		t.Errorf("%d records", len(events))
	}
}
