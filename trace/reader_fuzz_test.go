package trace

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// addSeeds adds small traces of all formats. Large ones would keep the fuzzer busy with making them smaller.
func addSeeds(f *testing.F) {
	for _, v := range []raw.Version{raw.Go122, raw.Go123, raw.Go125, raw.Go126} {
		f.Add(smallTrace(f, v))
	}
	for _, v := range []raw.Version{raw.Go111, raw.Go119, raw.Go121} {
		f.Add(smallOldTrace(f, v))
	}
	f.Add([]byte("go 1.22 trace\x00\x00\x00"))
}

// smallTrace returns a trace of two generations with a little of everything.
func smallTrace(tb testing.TB, v raw.Version) []byte {
	var out bytes.Buffer
	w, err := NewWriter(&out, WriterOptions{Version: v})
	if err != nil {
		tb.Fatal(err)
	}
	stack := &event.Stack{Frames: []event.Frame{{Func: "main.f", File: "f.go", Line: 1}, {Func: "main.g", File: "f.go", Line: 2}}}
	origin := &event.Origin{CreatedBy: stack.Frames[0], Start: stack.Frames[1]}
	p := event.ProcOf(0)
	for i, e := range []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateRunning, TID: 5, P: p},
		{Kind: event.GoStatus, G: 2, State: event.StateWaiting, Reason: "select", Stack: stack},
		{Kind: event.GoCreate, G: 7, Parent: 1, Origin: origin, Stack: stack, TID: 5, P: p},
		{Kind: event.GoStart, G: 7, TID: 6, P: event.ProcOf(1)},
		{Kind: event.STWBegin, G: 1, Reason: "GC sweep termination", TID: 5, P: p},
		{Kind: event.STWEnd, TID: 5, P: p},
		{Kind: event.GCBegin, G: 1, TID: 5, P: p},
		{Kind: event.UserTaskBegin, G: 7, Value: 3, Text: "task", TID: 6},
		{Kind: event.UserRegionBegin, G: 7, Value: 3, Text: "region", TID: 6},
		{Kind: event.UserLog, G: 7, Value: 3, Reason: "category", Text: "message", TID: 6},
		{Kind: event.GoSyscallBegin, G: 7, Stack: stack, TID: 6},
		{Kind: event.GoSyscallEnd, G: 7, TID: 6},
		{Kind: event.UserRegionEnd, G: 7, Value: 3, Text: "region", TID: 6},
		{Kind: event.CPUSample, G: 7, Stack: stack, TID: 6},
		{Kind: event.GoBlock, G: 7, Reason: "chan receive", Stack: stack, TID: 6},
		{Kind: event.GoUnblock, G: 7, By: 1, Stack: stack, TID: 5, P: p},
		{Kind: event.GoStart, G: 7, TID: 6, P: event.ProcOf(1)},
		{Kind: event.Lost, Value: 3},
		{Kind: event.GCEnd, TID: 5, P: p},
		{Kind: event.HeapAlloc, Value: 1 << 20, TID: 5, P: p},
		{Kind: event.AllocBytes, Value: 1 << 21},
		{Kind: event.HeapGoal, Value: 1 << 22},
		{Kind: event.GoStop, G: 1, Reason: event.StopPreempted, TID: 5, P: p},
		{Kind: event.GoDestroy, G: 7, TID: 6},
	} {
		if e.Time = int64(1+i/15)*1e9 + int64(i)*1000; e.Kind == event.GoStatus {
			e.Time = 1e9
		}
		if err := w.Write(&e); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// smallOldTrace returns a trace of before Go 1.22.
func smallOldTrace(tb testing.TB, v raw.Version) []byte {
	var out bytes.Buffer
	w, err := raw.NewWriter(&out, v)
	if err != nil {
		tb.Fatal(err)
	}
	for _, ev := range []raw.Event{
		{Type: raw.EvV1Batch, Args: []uint64{0, 10}},
		{Type: raw.EvV1String, Args: []uint64{1}, Data: []byte("main.f")},
		{Type: raw.EvV1GoCreate, Args: []uint64{1, 5, 1, 0}},
		{Type: raw.EvV1Gomaxprocs, Args: []uint64{1, 1, 0}},
		{Type: raw.EvV1ProcStart, Args: []uint64{1, 3}},
		{Type: raw.EvV1GoStart, Args: []uint64{1, 5, 1}},
		{Type: raw.EvV1HeapAlloc, Args: []uint64{1, 1000}},
		{Type: raw.EvV1UserLog, Args: []uint64{1, 0, 1, 1}, Data: []byte("message")},
		{Type: raw.EvV1GoSysCall, Args: []uint64{1, 1}},
		{Type: raw.EvV1GoBlockRecv, Args: []uint64{1, 1}},
		{Type: raw.EvV1ProcStop, Args: []uint64{1}},
		{Type: raw.EvV1Frequency, Args: []uint64{1e9}},
		{Type: raw.EvV1Stack, Args: []uint64{1, 1}, Frames: []raw.Frame{{PC: 9, Func: 1, File: 1, Line: 1}}},
	} {
		ev.Version = v
		if err := w.WriteEvent(&ev); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// TestSeeds verifies that the seeds of the fuzz tests are valid traces.
func TestSeeds(t *testing.T) {
	for _, v := range []raw.Version{raw.Go122, raw.Go123, raw.Go125, raw.Go126} {
		data := smallTrace(t, v)
		report, err := Validate(bytes.NewReader(data), ValidateOptions{})
		if err != nil || len(report.Problems) > 0 {
			t.Errorf("%v: %v, %v: %v", v, report, err, report.Problems)
		}
		expectOracle(t, data)
	}
	for _, v := range []raw.Version{raw.Go111, raw.Go119, raw.Go121} {
		report, err := Validate(bytes.NewReader(smallOldTrace(t, v)), ValidateOptions{})
		if err != nil || report.Errors > 0 {
			t.Errorf("%v: %v, %v: %v", v, report, err, report.Problems)
		}
	}
}

// fuzzMax bounds the inputs of fuzz tests, which the toolchain's reader takes long for.
const fuzzMax = 16 << 10

// isOld reports whether a trace is of before Go 1.22. The toolchain's reader reads it then, and takes 32 MB for each.
func isOld(data []byte) bool {
	r, err := NewReader(bytes.NewReader(data))
	return err == nil && r.Version().V1()
}

func FuzzReader(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > fuzzMax {
			return
		}
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		last := int64(0)
		for e, err := range r.Events() {
			if err != nil {
				if strings.ContainsAny(err.Error(), "\n\r") {
					t.Errorf("error of several lines: %q", err)
				}
				return
			}
			if r.Version() >= raw.Go122 && e.Kind != event.GoStart && e.Kind != event.GoSyscallBegin && e.Kind != event.GoDestroy && e.Time == last {
				t.Errorf("%v at the time of the event before", e.Kind)
			}
			last = e.Time
		}
	})
}

func FuzzValidate(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > fuzzMax {
			return
		}
		if isOld(data) {
			if _, err := Validate(bytes.NewReader(data), ValidateOptions{}); err != nil {
				t.Error(err)
			}
			return
		}
		for _, fault := range agree(data) {
			t.Error(fault)
		}
	})
}

// TestReaderMemory verifies that memory does not grow with the number of generations.
func TestReaderMemory(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const generations, each = 100, 500
	for i := range int64(generations * each) {
		e := event.Event{Time: 1e9 + i*int64(time.Second)/each, TID: 5, P: event.ProcOf(0), G: uint64(i/3 + 2)}
		switch i % 3 {
		case 0:
			e.Kind, e.Parent = event.GoCreate, 1
			e.Stack = &event.Stack{Frames: []event.Frame{{Func: fmt.Sprintf("main.f%d", i), File: strings.Repeat("x", 500), Line: 1}}}
		case 1:
			e.Kind = event.GoStart
		default:
			e.Kind = event.GoDestroy
		}
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before := liveHeap()
	r, err := NewReader(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	parts, most := 0, int64(0)
	for _, err := range r.Batches() {
		if err != nil {
			t.Fatal(err)
		}
		if parts++; parts%20 == 0 {
			most = max(most, liveHeap()-before)
		}
	}
	if n := r.Stats().Generations; n < generations {
		t.Errorf("%d generations", n)
	}
	if most > 12<<20 || parts < generations {
		t.Errorf("%d bytes of heap for a trace of %d, in %d parts", most, out.Len(), parts)
	}
}

// TestReaderClaims verifies that what a trace only claims to have is not allocated.
func TestReaderClaims(t *testing.T) {
	header := "go 1.22 trace\x00\x00\x00"
	for _, claim := range []string{
		header + "\x01\x01\x05\x05\x80\x80\x04",             // a batch of 64 KiB
		header + "\x01\x01\x05\x05\x05\x02\x03\x01\x80\x01", // a stack of 128 frames
		header + "\x01\x01\x05\x05\x05\x04\x05\x01\x80\x08", // a string of 1024 bytes
	} {
		if n := testing.AllocsPerRun(5, func() {
			if report, err := Validate(strings.NewReader(claim), ValidateOptions{}); err != nil || report.Valid() {
				t.Errorf("%v, %v", report, err)
			}
		}); n > 300 {
			t.Errorf("%v allocations for an input of %d bytes", n, len(claim))
		}
	}
}

// liveHeap returns the bytes of reachable heap objects.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
