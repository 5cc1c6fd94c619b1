package perf

import (
	"bytes"
	"testing"
	"time"
	"unsafe"
)

// record returns a record with copies of two stacks of the given sizes, of which the record claims to have others.
func record(size, gSize, haveSize, haveGSize uint32) []byte {
	s := samplerLoupeSample{Time: 5, Tid: 7, Pc: 1, Sp: 2, M: 3, Curg: 4, Goid: 9, Weight: 2, ExecId: 6, Base: 0x1000, G_base: 0x2000, Size: size, G_size: gSize,
		Flags: uint32(samplerLoupeSampleFlagLOUPE_IN_KERNEL)}
	raw := bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s)))
	raw = append(raw, bytes.Repeat([]byte{'a'}, int(haveSize))...)
	return append(raw, bytes.Repeat([]byte{'b'}, int(haveGSize))...)
}

func TestDecode(t *testing.T) {
	var s Sample
	if err := s.decode(record(16, 8, 16, 8)); err != nil {
		t.Fatal(err)
	}
	if s.Time != 5*time.Nanosecond || s.TID != 7 || !s.InKernel || s.Weight != 2 || s.Program != 6 || s.PC != 1 || s.SP != 2 || s.M != 3 || s.G != 4 || s.GoID != 9 ||
		s.Stack.Addr != 0x1000 || string(s.Stack.Data) != "aaaaaaaaaaaaaaaa" || s.Goroutine.Addr != 0x2000 || string(s.Goroutine.Data) != "bbbbbbbb" {
		t.Errorf("%+v", s)
	}
	for _, bad := range [][]byte{nil, record(0, 0, 0, 0)[:8], record(16, 8, 16, 7), record(1<<32-1, 1<<32-1, 16, 8)} {
		if err := s.decode(bad); err == nil {
			t.Errorf("a record of %d bytes: %+v", len(bad), s)
		}
	}
}

func TestPeriod(t *testing.T) {
	for rate := 1; rate <= MaxRate; rate++ {
		s := newSampler(nil, rate)
		if ticks := float64(time.Second) / float64(s.tick); ticks < minTickRate/2 || ticks > MaxRate+1 {
			t.Errorf("rate %d: %.1f ticks per second", rate, ticks)
		}
		if per := s.Period().Seconds() * float64(rate); per < 0.999999 || per > 1.000001 {
			t.Errorf("rate %d: period %v", rate, s.Period())
		}
	}
}
