package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// kernelSample returns the contents of a sample as the kernel writes it, with a stack of which some bytes were copied.
func kernelSample(abi uint64, stack, copied int) []byte {
	var b []byte
	word := func(w uint64) { b = binary.LittleEndian.AppendUint64(b, w) }
	word(7 | 9<<32) // PID, TID
	word(5)
	word(1000) // count
	word(77)   // ID of the event
	word(abi)
	if abi != 0 {
		for _, use := range sampledRegs {
			word(0x100 + uint64(use))
		}
	}
	word(uint64(stack))
	if stack > 0 {
		b = append(b, strings.Repeat("s", stack)...)
		word(uint64(copied))
	}
	return b
}

func TestDecodePlain(t *testing.T) {
	s, ok := decodePlain(kernelSample(2, 64, 16))
	if !ok || s.tid != 9 || s.time != 5*time.Nanosecond || s.count != 1000 || s.event != 77 || s.state.PC != 0x100+uint64(usePC) || s.state.SP != 0x100+uint64(useSP) ||
		s.state.LR != 0x100+uint64(useLR) || s.state.Stack.Addr != s.state.SP || string(s.state.Stack.Data) != strings.Repeat("s", 16) {
		t.Errorf("%+v, %v", s, ok)
	}
	if s, ok := decodePlain(kernelSample(0, 0, 0)); !ok || s.tid != 9 || s.state.PC != 0 {
		t.Errorf("of a thread without registers: %+v, %v", s, ok)
	}
	if s, ok := decodePlain(kernelSample(2, 64, 1<<20)); !ok || len(s.state.Stack.Data) != 64 {
		t.Errorf("with more copied than there is: %d bytes, %v", len(s.state.Stack.Data), ok)
	}
	good := kernelSample(2, 64, 64)
	for n := range good {
		if _, ok := decodePlain(good[:n]); ok {
			t.Errorf("the first %d of %d bytes are decoded", n, len(good))
		}
	}
	for range 10000 {
		b := append([]byte(nil), good...)
		b[rand.IntN(len(b))] = byte(rand.Uint32())
		decodePlain(b)
	}
}

// TestEventRing reads records across the end of the buffer.
func TestEventRing(t *testing.T) {
	var head, tail uint64
	r := eventRing{data: make([]byte, 64), head: &head, tail: &tail}
	for i := range uint64(50) {
		size := 16 + 8*(i%5)
		rec := make([]byte, size)
		binary.LittleEndian.PutUint64(rec, i%3|(i%4)<<32|size<<48)
		for j := range rec[8:] {
			rec[8+j] = byte(i)
		}
		for j, c := range rec {
			r.data[(head+uint64(j))%64] = c
		}
		head += size
		n := 0
		r.drain(func(kind uint32, misc uint16, body []byte) {
			n++
			if kind != uint32(i%3) || misc != uint16(i%4) || string(body) != string(rec[8:]) {
				t.Errorf("record %d: type %d, flags %d, %v", i, kind, misc, body)
			}
		})
		if n != 1 || tail != head {
			t.Errorf("record %d: %d records read, up to %d of %d", i, n, tail, head)
		}
	}
}

// TestPlainReason checks that a refusal names the setting.
func TestPlainReason(t *testing.T) {
	paranoid, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		t.Skip(err)
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("perf_event_open: %w", unix.EACCES), "kernel.perf_event_paranoid is " + strings.TrimSpace(string(paranoid))},
		{fmt.Errorf("mapping a buffer of 128 KiB: %w", unix.EPERM), "kernel.perf_event_mlock_kb is "},
	} {
		if got := plainReason(test.err); !errors.Is(got, probe.ErrPermission) || !strings.Contains(got.Error(), test.want) || strings.Contains(got.Error(), "\n") {
			t.Errorf("%v: %v", test.err, got)
		}
	}
	if got := plainReason(fmt.Errorf("perf_event_open: %w", unix.EINVAL)); !errors.Is(got, probe.ErrUnsupported) {
		t.Errorf("%v", got)
	}
}

// TestRefused samples a process whose threads need more files than may be open. Those without an event are counted, with the
// reason. The processor time of threads that were there at the start is not unseen.
func TestRefused(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	target.Command("threads 50")
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := NewPlain(p, Options{Rate: 99, BufferBytes: 1 << 20})
	if errors.Is(err, probe.ErrPermission) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	last, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(last)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(last) + 40, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	err = s.Start()
	for err == nil { // until no further file can be opened, not even the list of threads
		var fd int
		if fd, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			defer unix.Close(fd)
		}
	}
	if err == unix.EMFILE {
		err = s.scan(true)
	}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	if err != nil {
		t.Fatal(err)
	}
	if unseen, refused, refusal := s.Unsampled(); unseen != 0 || refused < 20 || !errors.Is(refusal, unix.EMFILE) {
		t.Errorf("%v unseen, %d threads refused: %v", unseen, refused, refusal)
	}
}
