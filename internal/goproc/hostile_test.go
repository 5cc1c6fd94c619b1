package goproc

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/procmap"
)

// FuzzHostileMemory reads goroutines from memory that lies: the fuzzer's bytes are taken for the runtime's data. The
// process that is read is the test itself.
func FuzzHostileMemory(f *testing.F) {
	exe, err := openExe(os.Getpid())
	if err != nil {
		f.Fatal(err)
	}
	dir, err := openProc(os.Getpid())
	if err != nil {
		f.Fatal(err)
	}
	target := newModule(exe, 0)
	rt, err := newRuntimeLayout(exe.Layout(), target)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{1, 2, 3}, uint16(8), uint64(4), uint64(0), uint8(20))
	f.Add(make([]byte, 4096), uint16(64), uint64(1), ^uint64(0), uint8(27))
	f.Fuzz(func(t *testing.T, noise []byte, stride uint16, status, labels uint64, minor uint8) {
		p := &Process{pid: os.Getpid(), dir: dir, main: target, mem: memory{os.Getpid()}, log: slog.New(slog.DiscardHandler), rt: rt}
		p.symbols = newSymbolizer(target)
		p.layout = exe.Layout()
		arena := hostileArena(p, noise, stride, status, labels)
		tk := &taker{p: p, ctx: context.Background(), snap: &event.Snapshot{}, labels: newLabelReader(p.mem, int(minor)), starts: map[startKey]event.Frame{}}
		begin := time.Now()
		err := tk.take()
		if err == nil && len(tk.snap.Goroutines) > len(arena) {
			t.Errorf("%d goroutines in %d bytes", len(tk.snap.Goroutines), len(arena))
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// hostileArena lays out a list of goroutines whose g's are the fuzzer's bytes, and points the process's layout at it.
func hostileArena(p *Process, noise []byte, stride uint16, status, labels uint64) []byte {
	const count = 16
	size := p.rt.g.size
	arena := make([]byte, 64+8*count+count*size+4096)
	base := uint64(uintptr(unsafe.Pointer(&arena[0])))
	for i := range arena {
		if len(noise) > 0 {
			arena[i] = noise[i%len(noise)]
		}
	}
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(arena[off:], v) }
	put(0, base+64)
	put(8, count)
	put(16, count)
	put(24, 0) // the list of threads is empty
	for i := range count {
		g := 64 + 8*count + i*size
		put(64+8*i, base+uint64(g)+uint64(stride)*uint64(i&1))
		put(g+p.rt.g.status, status+uint64(i))
		put(g+p.rt.g.labels, labels+base)
		if i%2 == 0 { // a stack within the arena
			put(g+p.rt.g.stackLo, base)
			put(g+p.rt.g.schedSP, base+64)
			put(g+p.rt.g.stackHi, base+uint64(len(arena)))
		}
	}
	p.rt.allgs, p.rt.allglen, p.rt.allgptr, p.rt.allm = base, base+8, base, base+24
	return arena
}

// FuzzProcFiles parses what /proc could say.
func FuzzProcFiles(f *testing.F) {
	for _, name := range []string{"stat", "maps", "status", "timens_offsets"} {
		b, err := os.ReadFile("/proc/self/" + name)
		if err != nil {
			continue
		}
		f.Add(b)
	}
	f.Add([]byte("12 (a) b) S 1 2"))
	f.Add([]byte("00400000-00401000 r-xp 00000000 fd:00 1 /a b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, err := parseStat(b); err == nil && !strings.Contains(string(b), strconv.FormatUint(st.startTicks, 10)) {
			t.Errorf("start %d of %q", st.startTicks, b)
		}
		maps, err := procmap.Parse(b)
		if err == nil {
			procmap.Of(maps, 0x400000)
		}
		monotonicLine(b)
		lastPID(string(b))
	})
}
