package glti

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/trace"
	"strings"
	"testing"
	"time"
)

// traceBuilder writes a trace.
type traceBuilder struct{ bytes.Buffer }

func (b *traceBuilder) numbers(values ...uint64) *traceBuilder {
	for _, v := range values {
		b.Write(binary.AppendUvarint(nil, v))
	}
	return b
}

// batch writes a batch of events, or of another kind.
func (b *traceBuilder) batch(generation, thread, time uint64, data ...uint64) {
	var body traceBuilder
	body.numbers(data...)
	b.numbers(wireBatch, generation, thread, time, uint64(body.Len()))
	b.Write(body.Bytes())
}

// strings writes a batch of strings, numbered from 1 on.
func (b *traceBuilder) strings(generation uint64, list ...string) {
	var body traceBuilder
	body.numbers(wireStrings)
	for i, s := range list {
		body.numbers(wireString, uint64(i+1), uint64(len(s)))
		body.WriteString(s)
	}
	b.numbers(wireBatch, generation, 1<<64-1, 0, uint64(body.Len()))
	b.Write(body.Bytes())
}

// header begins a trace with one unit of time for each nanosecond.
func (b *traceBuilder) header(version string) {
	header := make([]byte, traceHeaderSize)
	copy(header, "go "+version+" trace")
	b.Write(header)
}

// smallTrace is a trace of two generations and two threads.
func smallTrace() []byte {
	var b traceBuilder
	b.header("1.26")
	b.batch(1, 0, 100, wireSync, wireFrequency, 1e9, wireClockSnapshot, 5, 105, 0, 0)
	b.strings(1, "chan receive", "sleep", "GC (idle)")
	b.batch(1, 7, 100,
		wireProcStatus, 0, 0, procRunning,
		wireGoStatus, 0, 1, 7, goRunning,
		wireGoStatus, 0, 5, 1<<64-1, goWaiting,
		wireGoCreate, 10, 8, 0, 0, // 110
		wireGoBlock, 20, 1, 0, // 130, main waits
		wireGoStart, 5, 8, 1, // 135
		wireGoLabel, 0, 3,
		wireGoUnblock, 10, 1, 1, 0, // 145
		wireGoDestroy, 5, // 150
		wireGoStart, 1, 1, 2, // 151
		wireGoSyscallBegin, 9, 1, 0) // 160
	b.batch(1, 9, 170, wireProcSteal, 0, 0, 2, 7, wireProcStart, 0, 0, 3) // 170: takes the P
	b.numbers(wireExperimentalBatch, 1, 1, 9, 0, 2, 77, 77)
	b.numbers(wireEndOfGeneration)
	b.batch(2, 0, 200, wireSync, wireFrequency, 1e9, wireClockSnapshot, 5, 205, 0, 0)
	b.strings(2, "chan receive", "other reason")
	b.batch(2, 7, 200,
		wireGoSyscallEndBlocked, 0, // 200
		wireProcStart, 5, 1, 1, // 205
		wireGoStart, 0, 1, 1,
		wireGoBlock, 5, 2, 0, // 210
		wireGoStop, 1, 1, 0, // no goroutine: lost
		wireGoStart, 1, 1, 3, // 212
		wireGoSyscallBegin, 1, 1, 0,
		wireProcSteal, 1, 1, 2, 7) // 214: its own thread gives the P to the one that stops the world
	return b.Bytes()
}

// convertAll converts a trace as stock.go does.
func convertAll(data []byte, chunk int) (records []string, lost uint64, err error) {
	model := newTraceModel(func(r Record) {
		text := fmt.Sprint(r.Time, " ", r.Event)
		if r.G.ID != 0 {
			text += fmt.Sprint(" g", r.G.ID)
		}
		if r.By.ID != 0 {
			text += fmt.Sprint(" by g", r.By.ID)
		}
		if events[r.Event].fields&fieldP != 0 {
			text += fmt.Sprint(" p", r.P.ID)
		}
		if r.Text[0] != "" {
			text += " " + r.Text[0]
		}
		records = append(records, text)
	})
	s := &splitter{done: func(g *generation) {
		if e := model.convert(g, func(r Record) {
			if r.Event != EvString {
				records = append(records, fmt.Sprint(r.Event, " g", r.G.ID))
			}
		}); e != nil {
			err = e
		}
	}}
	for len(data) > 0 {
		n := min(chunk, len(data))
		s.Write(data[:n])
		data = data[n:]
	}
	s.finish()
	if e := s.error(); e != nil {
		err = e
	}
	return records, model.lost, err
}

func TestConvert(t *testing.T) {
	want := []string{
		"100 String chan receive", "100 String sleep", "100 String GC (idle)",
		"GoWaiting g5",
		"110 GoCreate g8 by g1",
		"130 GoBlockRecv g1",
		"135 GoStart g8", "135 GoStartLocal g8", "135 GoStartLabel g8 GC (idle)",
		"145 GoUnblock g1 by g8",
		"150 GoEnd g8",
		"151 GoStart g1", "151 GoStartLocal g1",
		"160 GoSysCall g1",
		"170 GoSysBlock g1", "170 ProcStop p0", "170 ProcStart p0",
		"200 String other reason",
		"200 GoSysExit g1",
		"205 ProcStart p1", "205 GoStart g1",
		"210 GoBlock g1",
		"212 GoStart g1", "212 GoStartLocal g1", "213 GoSysCall g1",
		"214 GoSysBlock g1", "214 ProcStop p1",
	}
	for _, chunk := range []int{1, 7, 1 << 20} {
		got, lost, err := convertAll(smallTrace(), chunk)
		if err != nil || lost != 1 {
			t.Errorf("chunks of %d: lost %d, error %v", chunk, lost, err)
		}
		if !sameStrings(got, want) {
			t.Errorf("chunks of %d:\n%s\nwant\n%s", chunk, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestDelayedSteal converts a trace in which the thread that takes another's processor writes so after the other has got a new one.
func TestDelayedSteal(t *testing.T) {
	var b traceBuilder
	b.header("1.26")
	b.batch(1, 0, 100, wireFrequency, 1e9)
	b.strings(1, "preempted")
	b.batch(1, 7, 100,
		wireProcStatus, 0, 0, procRunning,
		wireGoStatus, 0, 1, 7, goRunning,
		wireGoSyscallBegin, 10, 1, 0, // 110
		wireProcStart, 10, 1, 1, // 120
		wireGoSyscallEndBlocked, 20, // 140
		wireGoStart, 5, 1, 1, // 145
		wireGoStop, 5, 1, 0, // 150
		wireGoStart, 5, 1, 2) // 155: on the same processor
	b.batch(1, 9, 130, wireProcSteal, 0, 0, 2, 7)
	got, lost, err := convertAll(b.Bytes(), 1<<20)
	want := []string{
		"100 String preempted",
		"110 GoSysCall g1",
		"120 ProcStart p1",
		"130 GoSysBlock g1", "130 ProcStop p0",
		"140 GoSysExit g1",
		"145 GoStart g1",
		"150 GoPreempt g1",
		"155 GoStart g1", "155 GoStartLocal g1",
	}
	if err != nil || lost != 0 || !sameStrings(got, want) {
		t.Errorf("lost %d, error %v:\n%s\nwant\n%s", lost, err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// sameStrings compares lists; the strings of a generation have no order.
func sameStrings(got, want []string) bool {
	count := map[string]int{}
	ordered := func(list []string, sign int) (rest []string) {
		for _, text := range list {
			if strings.Contains(text, " String ") {
				count[text] += sign
			} else {
				rest = append(rest, text)
			}
		}
		return rest
	}
	same := reflect.DeepEqual(ordered(got, 1), ordered(want, -1))
	for _, n := range count {
		same = same && n == 0
	}
	return same
}

func TestBadTraces(t *testing.T) {
	good := smallTrace()
	for name, data := range map[string][]byte{
		"header":      append([]byte("go 1.99 trace\x00\x00\x00"), good[16:]...),
		"batch":       append(good[:16:16], 99),
		"large batch": binary.AppendUvarint(append(good[:16:16], wireBatch, 1, 1, 1), maxBatchSize+1),
		"event": func() []byte {
			var b traceBuilder
			b.header("1.26")
			b.batch(1, 0, 1, wireFrequency, 1e9)
			b.batch(1, 7, 1, 99)
			return b.Bytes()
		}(),
		"no frequency": func() []byte {
			var b traceBuilder
			b.header("1.22")
			b.batch(1, 7, 1, wireProcStop, 0)
			return b.Bytes()
		}(),
	} {
		if records, _, err := convertAll(data, 1<<20); !errors.Is(err, errBadTrace) {
			t.Errorf("%s: error %v, records %q", name, err, records)
		}
	}
}

// TestSplitterAgain checks that a trace that is read again delivers only what is new.
func TestSplitterAgain(t *testing.T) {
	var numbers []uint64
	s := &splitter{done: func(g *generation) { numbers = append(numbers, g.number) }}
	data := smallTrace()
	s.Write(data[:len(data)*3/4])
	s.again()
	s.Write(data)
	s.finish()
	s.again()
	s.Write(data)
	s.finish()
	if fmt.Sprint(numbers) != "[1 2]" {
		t.Errorf("generations %v", numbers)
	}
}

// TestMissedGenerations checks that generations that a recorder has dropped are counted.
func TestMissedGenerations(t *testing.T) {
	var missed []uint64
	s := &splitter{done: func(g *generation) { missed = append(missed, g.missed) }}
	var b traceBuilder
	b.header("1.26")
	for _, number := range []uint64{3, 4, 7} {
		b.batch(number, 7, 1, wireProcStop, 0)
	}
	s.Write(b.Bytes())
	s.finish()
	if fmt.Sprint(missed) != "[0 0 2]" {
		t.Errorf("missed %v", missed)
	}
}

// TestLargeGeneration checks that a generation is bounded, and that what does not fit is counted.
func TestLargeGeneration(t *testing.T) {
	var got *generation
	s := &splitter{done: func(g *generation) { got = g }}
	var b traceBuilder
	b.header("1.26")
	s.Write(b.Bytes())
	events := bytes.Repeat([]byte{wireProcStop, 1}, maxBatchSize/2)
	n := maxGenerationSize/len(events) + 10
	for i := 0; i < n; i++ {
		b.Reset()
		b.numbers(wireBatch, 1, 7, 0, uint64(len(events)))
		b.Write(events)
		s.Write(b.Bytes())
	}
	s.finish()
	kept := uint64(len(got.batches)) * uint64(len(events)/2)
	if all := uint64(n) * uint64(len(events)/2); got.lost == 0 || kept+got.lost != all || got.size > maxGenerationSize+maxBatchSize {
		t.Errorf("kept %d and lost %d of %d events, %d bytes", kept, got.lost, all, got.size)
	}
}

func TestQueue(t *testing.T) {
	q := newGenerationQueue()
	large := &generation{size: maxQueued}
	if !q.put(large) || q.put(&generation{size: 1}) || q.take() != large || !q.put(&generation{number: 2}) {
		t.Error("the queue does not limit sizes")
	}
	q.close()
	if g := q.take(); g == nil || g.number != 2 || q.take() != nil {
		t.Error("close loses what waits")
	}
}

// FuzzTrace checks that no trace makes the package panic, and that it does not matter how a trace is cut into pieces.
func FuzzTrace(f *testing.F) {
	f.Add(smallTrace(), 7)
	if traceable(runtime.Version()) == "" {
		var real bytes.Buffer
		if err := trace.Start(&real); err != nil {
			f.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		trace.Stop()
		f.Add(real.Bytes(), 1000)
	}
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		whole, lost, err := convertAll(data, 1<<30)
		if chunk < 1 || len(data)/chunk > 1000 {
			return
		}
		cut, lostCut, errCut := convertAll(data, chunk)
		if !sameStrings(whole, cut) || lost != lostCut || (err == nil) != (errCut == nil) {
			t.Errorf("in chunks of %d: %d records, %d lost, %v; as a whole: %d, %d, %v", chunk, len(cut), lostCut, errCut, len(whole), lost, err)
		}
	})
}
