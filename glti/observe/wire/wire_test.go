package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
)

// samples has a message of each type.
func samples() []Message {
	frame := Frame{Func: 1, File: 2, Line: 3}
	all := []Record{
		{Event: GoCreate, Time: 100, G: 7, By: 1, P: -1, Arg: 0x4000, Arg2: 0x5000, Stack: 9},
		{Event: GoStart, Time: 90, G: 7, P: 3, Arg: 1234},
		{Event: GoPark, Time: 120, G: 7, P: -1, Arg: 14, Stack: 9},
		{Event: GCEnd, Time: 130, P: -1},
		{Event: HeapLive, Time: 130, P: -1, Arg: 1 << 40},
	}
	var encoded []byte
	before := int64(0)
	for i := range all {
		encoded = AppendRecord(encoded, &all[i], before)
		before = all[i].Time
	}
	return []Message{
		&Hello{Magic, Version}, &Start{1 << 5, 32, true, 1 << 20}, &List{3}, &ReadMemory{4}, &Stop{},
		&Welcome{Version: 1, PID: 77, GoVersion: "go1.27", OS: "linux", Arch: "arm64", Exe: "/bin/x", Module: "m", ModuleVer: "v1", Procs: 8,
			Clock: -5, Unix: 1 << 60, Events: 255, Reasons: []string{"", "chan receive"}, Tracer: []string{"sync"}},
		&Refused{"no"}, &Started{55}, &Text{"main.run"}, &Site{9, frame}, &Func{8, frame},
		&Stack{3, true, []Frame{frame, frame}},
		&Events{Until: 200, Lost: 1, Stacks: 2, Dropped: []uint64{0, 3}, Sent: []uint64{5}, Records: all, Encoded: encoded},
		&Goroutines{0, []Goroutine{{ID: 1, State: Running, Thread: 5, Wait: 4, System: true}, {ID: 2, Parent: 1, State: Waiting, Reason: 3, CreatedBy: 8, Func: 9, Stack: 4}}},
		&GoroutinesEnd{2, 99, 3}, &Memory{Request: 1, Time: 5, Procs: 2, CPUTotal: 9}, &End{-1},
	}
}

func TestRoundTrip(t *testing.T) {
	var b []byte
	seen := map[byte]bool{}
	for _, m := range samples() {
		b = Append(b, m)
		seen[m.kind()] = true
	}
	if len(seen) != len(messages) {
		t.Errorf("%d types of messages, %d in the table", len(seen), len(messages))
	}
	r := NewReader(bytes.NewReader(b), 0)
	for _, want := range samples() {
		got, err := r.Next()
		if err != nil {
			t.Fatalf("%T: %v", want, err)
		}
		if e, ok := want.(*Events); ok {
			e.Encoded = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// TestTruncated cuts each message, and changes its length.
func TestTruncated(t *testing.T) {
	for _, m := range samples() {
		b := Append(nil, m)
		for n := 1; n < len(b); n++ {
			if _, err := NewReader(bytes.NewReader(b[:n]), 0).Next(); err == nil || err == io.EOF && n > 5 {
				t.Errorf("%T: %d of %d bytes: %v", m, n, len(b), err)
			}
		}
		long := append(append([]byte(nil), b...), 0)
		long[0]++
		_, err := NewReader(bytes.NewReader(long), 0).Next()
		if _, list := m.(*Events); !errors.Is(err, ErrGarbage) && !list {
			t.Errorf("%T with another byte: %v", m, err)
		}
	}
	if _, err := NewReader(bytes.NewReader(Append(nil, &Text{string(make([]byte, 1000))})), 100).Next(); !errors.Is(err, ErrGarbage) {
		t.Errorf("a message that is too long: %v", err)
	}
}

// FuzzReader reads arbitrary bytes. What it can decode and encode again is equal.
func FuzzReader(f *testing.F) {
	for _, m := range samples() {
		f.Add(Append(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b), 1<<16)
		for {
			m, err := r.Next()
			if err != nil {
				return
			}
			if e, ok := m.(*Events); ok {
				e.Encoded = nil
				before := int64(0)
				for i := range e.Records {
					e.Encoded = AppendRecord(e.Encoded, &e.Records[i], before)
					before = e.Records[i].Time
				}
			}
			again, err := NewReader(bytes.NewReader(Append(nil, m)), 1<<20).Next()
			if err != nil {
				t.Fatalf("%+v: %v", m, err)
			}
			if e, ok := m.(*Events); ok {
				e.Encoded = nil
			}
			if !reflect.DeepEqual(m, again) {
				t.Fatalf("%+v, then %+v", m, again)
			}
		}
	})
}
