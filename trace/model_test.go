package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

func TestModelTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table := newModelTable[uint64]()
	want := map[uint64]*uint64{}
	id := func() uint64 {
		switch rng.IntN(3) {
		case 0:
			return rng.Uint64N(300)
		case 1:
			return rng.Uint64N(300) << 32
		}
		return ^rng.Uint64N(300)
	}
	for range 200_000 {
		k := id()
		switch got := table.find(k); {
		case got != want[k]:
			t.Fatalf("find(%d) = %v, want %v", k, got, want[k])
		case got == nil:
			want[k] = &k
			table.add(k, &k)
		case rng.IntN(2) == 0:
			delete(want, k)
			table.remove(k)
			table.remove(k + 1000) // is not there
		}
		if table.n != len(want) {
			t.Fatalf("%d things, want %d", table.n, len(want))
		}
	}
	n := 0
	table.all(func(id uint64, item *uint64) {
		if n++; want[id] != item {
			t.Fatalf("all: %d", id)
		}
	})
	if n != len(want) {
		t.Errorf("all: %d things, want %d", n, len(want))
	}
	table.clear()
	if table.n != 0 || table.find(7) != nil {
		t.Error("clear")
	}
}

func TestModelIDs(t *testing.T) {
	for _, ids := range [][]uint64{{}, {1, 2, 3}, {3, 1, 2, 1}, {1 << 60, 5, 1 << 60}, {^uint64(0)}} {
		var x modelIDs
		for _, id := range ids {
			x.add(id)
		}
		var twice []int
		x.build(func(i int) { twice = append(twice, i) })
		first := map[uint64]int{}
		var wantTwice []int
		for i, id := range ids {
			if _, ok := first[id]; ok {
				wantTwice = append(wantTwice, i)
				continue
			}
			first[id] = i
		}
		if !slices.Equal(twice, wantTwice) {
			t.Errorf("%v: twice %v, want %v", ids, twice, wantTwice)
		}
		for _, id := range append(ids, 0, 4, 6, 1<<61) {
			want, ok := first[id]
			if !ok {
				want = -1
			}
			if got := x.find(id); got != want {
				t.Errorf("%v: find(%d) = %d, want %d", ids, id, got, want)
			}
		}
		x.reset()
		x.build(nil)
		if x.find(1) != -1 || x.find(5) != -1 {
			t.Errorf("%v: not reset", ids)
		}
	}
}

// TestModelNumbers compares all ways of decoding numbers with encoding/binary.
func TestModelNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		var b []byte
		var want []uint64
		for range 5 {
			x := rng.Uint64() >> rng.IntN(64)
			b = binary.AppendUvarint(b, x)
			if rng.IntN(10) == 0 && len(b) > 0 && b[len(b)-1] < 0x80 && x < 1<<50 { // padded
				b[len(b)-1] |= 0x80
				b = append(b, 0)
			}
			want = append(want, x)
		}
		b = append(b, make([]byte, modelTail)...)
		at := 0
		for i, x := range want {
			got, next := modelNumber(b, at)
			if _, n := binary.Uvarint(b[at:]); got != x || next != at+n {
				t.Fatalf("number %d of % x: %d, %d", i, b, got, next)
			}
			at = next
		}
		w := binary.LittleEndian.Uint64(b)
		win := modelWindowOf(w)
		together := win.together(w)
		at = 0
		for i := range int(win.count) {
			if got := win.number(together, i); got != want[i] {
				t.Fatalf("number %d in the window of % x: %d, want %d", i, b[:8], got, want[i])
			}
			_, at = modelNumber(b, at)
			if int(win.ends[i+1]) != at {
				t.Fatalf("number %d in the window of % x ends at %d, want %d", i, b[:8], win.ends[i+1], at)
			}
		}
	}
	for _, tt := range []struct {
		b    []byte
		want Code
	}{
		{bytes.Repeat([]byte{0xff}, 10), CodeOverflow},
		{append(bytes.Repeat([]byte{0xff}, 9), 2), CodeOverflow},
		{bytes.Repeat([]byte{0xff}, 4), CodeCutOff},
		{nil, CodeCutOff},
	} {
		if got := modelNumberFault(append(bytes.Clone(tt.b), make([]byte, modelTail)...), 0, len(tt.b)); got != tt.want {
			t.Errorf("% x: %s, want %s", tt.b, got, tt.want)
		}
	}
}

// TestModelFrontier verifies that the earliest thread is always the first one.
func TestModelFrontier(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var f modelFrontier
	for range 50_000 {
		switch n := len(f); {
		case n == 0 || n < 40 && rng.IntN(3) == 0:
			f.push(&modelCursor{modelRecord: &modelRecord{time: rng.Int64N(100)}})
		case rng.IntN(4) == 0:
			f.remove(rng.IntN(n))
		case rng.IntN(4) == 0:
			f.sort()
		case rng.IntN(2) == 0:
			f[0].time = rng.Int64N(100)
			f.updateFirst()
		default:
			i := rng.IntN(n)
			f[i].time = rng.Int64N(100)
			f.update(i)
		}
		for i := 1; i < len(f); i++ {
			if f[i].time < f[(i-1)/2].time {
				t.Fatalf("no heap: %v", f)
			}
		}
	}
}

func TestModelInput(t *testing.T) {
	want := make([]byte, 3*modelChunk+12345)
	for i := range want {
		want[i] = byte(i * i >> 3)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	in := newModelInput(bytes.NewReader(want))
	var got []byte
	var parts [][]byte
	for in.need(1) {
		n := 1 + rng.IntN(70_000)
		if !in.need(n) {
			n = in.size()
		}
		if in.offset() != int64(len(got)) {
			t.Fatalf("offset %d, want %d", in.offset(), len(got))
		}
		b := in.take(n)
		got = append(got, b...)
		if parts = append(parts, b); len(parts) == 30 {
			if !bytes.HasSuffix(got, bytes.Join(parts, nil)) {
				t.Fatal("what was taken did not stay valid")
			}
			parts = nil
			in.recycle(in.finish())
		}
	}
	if !bytes.Equal(got, want) || in.failure() != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), in.failure())
	}
	stuck := newModelInput(readerFunc(func([]byte) (int, error) { return 0, nil }))
	if stuck.need(1) || !errors.Is(stuck.failure(), io.ErrNoProgress) {
		t.Errorf("a reader without progress: %v", stuck.failure())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestModelPatience gives many threads that wait for something that never comes.
func TestModelPatience(t *testing.T) {
	e := newModelEdit(t, tinyTrace(t, "1.26.11"))
	for i := range uint64(3000) {
		e.newBatch(scriptThread+i, e.ev(raw.EvGoUnblock, scriptGo+i, 1, 0), e.ev(raw.EvGoUnblock, scriptGo+i, 2, 0))
	}
	data, _ := e.wire()
	list := newValidList(10)
	md := newModel(raw.Go126, list)
	md.patience = 1000
	in := newModelInput(bytes.NewReader(data))
	if _, err := modelVersion(in); err != nil {
		t.Fatal(err)
	}
	l := newModelLoader(in, raw.Go126, 10)
	for {
		g, err := l.next()
		if err != nil {
			break
		}
		md.begin(g)
		for step := modelStepEvent; step == modelStepEvent || step == modelStepSample; {
			if step, _ = md.step(); step == modelStepSample {
				md.samples = md.samples[1:]
			}
		}
	}
	if list.counts[CodeStuck] != 1 {
		t.Errorf("problems %v", list.counts)
	}
}

// TestValidateCounts verifies that problems are counted beyond those that are kept, and that this is said.
func TestValidateCounts(t *testing.T) {
	e := newModelEdit(t, tinyTrace(t, "1.26.11"))
	n := 0
	for i := range e.events {
		if ev := &e.events[i]; ev.Type == raw.EvGoBlock {
			ev.Args[2] = 9999
			n++
		}
	}
	data, _ := e.wire()
	report, err := Validate(bytes.NewReader(data), ValidateOptions{PerCode: 3})
	if err != nil {
		t.Fatal(err)
	}
	if n < 10 || report.Counts[CodeUnknownStack] != n || len(report.Problems) != 3 || report.Omitted != int64(n-3) || report.Errors != int64(n) {
		t.Errorf("%d of %d: %v", len(report.Problems), n, report)
	}
	if s := report.String(); !strings.Contains(s, "not listed") || strings.Contains(s, "\n") {
		t.Error(s)
	}
	if codes := report.Codes(); !slices.Equal(codes, []Code{CodeUnknownStack}) {
		t.Error(codes)
	}
}

func TestProblemText(t *testing.T) {
	for _, tt := range []struct {
		p    Problem
		want string
	}{
		{Problem{Offset: 16, Batch: -1, Thread: -1, Event: -1, Text: "x"}, "offset 16: x"},
		{Problem{Offset: 99, Generation: 2, Batch: 7, Thread: 5, Event: 3, Text: "x"}, "offset 99, generation 2, batch 7, M 5, event 3: x"},
	} {
		if got := tt.p.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if Error.String() != "error" || Warning.String() != "warning" || Severity(9).String() != "Severity(9)" {
		t.Error("severities")
	}
}
