package goproc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestStableMemory checks that every page with a span is readable in programs that have returned memory to the kernel, and that
// their goroutines, stacks and objects are in these pages.
func TestStableMemory(t *testing.T) {
	for _, spec := range testtarget.Matrix(t, "larder") {
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			p := openLarder(t, target)
			var object uint64
			if _, err := fmt.Sscanf(target.Command("where"), "where %d", &object); err != nil {
				t.Fatal(err)
			}
			s, err := p.StableMemory()
			if err != nil {
				t.Fatal(err)
			}
			pages, unreadable := p.pagesWithSpan(t, s.Heap)
			if pages*pageBytes < 100<<20 || unreadable != 0 {
				t.Errorf("%d pages have a span, %d of them are not readable", pages, unreadable)
			}
			gs, err := p.readAllgs()
			if err != nil || len(gs) < 50 {
				t.Fatalf("%d goroutines, %v", len(gs), err)
			}
			addrs := []uint64{object, object + 100_000 - 1}
			for _, g := range gs {
				lo, err := p.mem.u64(g + uint64(p.rt.g.stackLo))
				if err != nil {
					t.Fatal(err)
				}
				if addrs = append(addrs, g); lo != 0 {
					addrs = append(addrs, lo)
				}
			}
			for _, addr := range addrs {
				if span, err := p.spanOf(s.Heap, addr); err != nil || span == 0 {
					t.Errorf("span %#x for %#x, %v", span, addr, err)
				}
			}
			p.checkImage(t, s.Image)
		})
	}
}

// TestStableMemoryImages does so with a runtime in a shared library, linked with C code, and with the race detector.
func TestStableMemoryImages(t *testing.T) {
	for _, spec := range testtarget.Rare(t, testtarget.Spec{Program: "mixer", Library: true}, testtarget.Spec{Program: "mixer", Archive: true},
		testtarget.Spec{Program: "mixer", Plugin: true}, testtarget.Spec{Program: "mixer", Cgo: true, PIE: true},
		testtarget.Spec{Program: "mixer", Cgo: true, Flags: "-race"}) {
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec), "2")
			p, err := Open(target.PID(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s, err := p.StableMemory()
			if err != nil {
				t.Fatal(err)
			}
			if pages, unreadable := p.pagesWithSpan(t, s.Heap); pages == 0 || unreadable != 0 {
				t.Errorf("%d pages have a span, %d of them are not readable", pages, unreadable)
			}
			p.checkImage(t, s.Image)
		})
	}
}

// openLarder lets target larder allocate and free memory, and opens it.
func openLarder(t *testing.T, target *testtarget.Process) *Process {
	t.Helper()
	for _, line := range []string{"keep 200 1000000", "classes", "stacks 50", "drop", "free", "keep 10 100000"} {
		target.Command(line)
	}
	p, err := Open(target.PID(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// pagesWithSpan returns the number of pages that have a span, and how many of these are not readable.
func (p *Process) pagesWithSpan(t *testing.T, h HeapMap) (pages, unreadable int) {
	t.Helper()
	maps, err := p.maps()
	if err != nil {
		t.Fatal(err)
	}
	spans, at := make([]byte, arenaBytes/pageBytes*8), uint64(0)
	for _, m := range maps {
		if m.Start >= 1<<47 {
			break
		}
		for addr := max(at, m.Start); addr < m.End; addr = at {
			start := addr &^ (arenaBytes - 1)
			at = start + arenaBytes
			arena, err := p.mem.u64(h.Arenas + (start+h.Base)/arenaBytes*8)
			if err != nil {
				t.Fatal(err)
			}
			if arena == 0 {
				continue
			}
			if err := p.mem.read(spans, arena+h.Spans); err != nil {
				t.Fatal(err)
			}
			now, err := p.maps() // the runtime has mapped what has a span
			if err != nil {
				t.Fatal(err)
			}
			for i := range uint64(arenaBytes / pageBytes) {
				if binary.LittleEndian.Uint64(spans[8*i:]) == 0 {
					continue
				}
				pages++
				if !mappedReadable(now, Extent{start + i*pageBytes, pageBytes}) {
					unreadable++
				}
			}
		}
	}
	return pages, unreadable
}

// checkImage checks the parts of the image: they are readable, and code, constants and variables are in them.
func (p *Process) checkImage(t *testing.T, parts []Extent) {
	t.Helper()
	bin := p.main.bin
	text, _ := bin.LookupFunc("runtime.main")
	setting, ok := bin.Setting("efence")
	if len(parts) != len(bin.Segments()) || !ok {
		t.Errorf("image %x, segments %+v", parts, bin.Segments())
	}
	for name, addr := range map[string]uint64{"text": text.Entry, "module": bin.Module().Addr, "mheap": bin.Globals().Mheap, "setting": setting} {
		if !contains(parts, addr+p.main.bias) {
			t.Errorf("%s at %#x is not in %x", name, addr+p.main.bias, parts)
		}
	}
	for _, part := range parts {
		if b := make([]byte, part.Size); p.mem.read(b, part.Start) != nil {
			t.Errorf("%x is not readable", part)
		}
	}
}

func contains(parts []Extent, addr uint64) bool {
	for _, e := range parts {
		if addr-e.Start < e.Size {
			return true
		}
	}
	return false
}

// TestStableMemoryUnknown observes programs whose runtime makes freed memory unreadable: their heap is unknown. It checks that their
// heap indeed has pages with a span that are not readable.
func TestStableMemoryUnknown(t *testing.T) {
	type unstable struct {
		spec testtarget.Spec
		env  string
		more string
		why  string
	}
	var cases []unstable
	for _, release := range testtarget.Among(t, "1.12.17", "1.18.10", testtarget.Latest()) {
		for _, stripped := range []bool{false, true} {
			spec := testtarget.Spec{Program: "larder", Go: release, Stripped: stripped}
			cases = append(cases, unstable{spec, "GODEBUG=gctrace=0,efence=1", "gc", "freed memory is unreadable with GODEBUG=efence=1"})
			if release != "1.12.17" {
				cases = append(cases, unstable{spec, "GODEBUG=harddecommit=1", "gc", "freed memory is unreadable with GODEBUG=harddecommit=1"})
			}
		}
	}
	arenas := testtarget.Spec{Program: "larder", Experiment: "arenas"}
	for _, spec := range testtarget.Rare(t, arenas) {
		cases = append(cases, unstable{spec, "", "arena 100 1000000", "the program can use package arena"})
	}
	for _, c := range cases {
		t.Run(c.spec.String()+"/"+c.env, func(t *testing.T) {
			cmd := testcmd.Within(t, 0, testtarget.Build(t, c.spec))
			cmd.Env = append(os.Environ(), c.env)
			target := testtarget.StartCmd(t, cmd)
			p := openLarder(t, target)
			target.Command(c.more)
			target.Command("gc")
			s, err := p.StableMemory()
			if err == nil || !strings.Contains(err.Error(), c.why) || s.Heap != (HeapMap{}) || len(s.Image) == 0 {
				t.Errorf("%+v, %v", s, err)
			}
			h, err := p.findHeapMap()
			if err != nil {
				t.Fatal(err)
			}
			if pages, unreadable := p.pagesWithSpan(t, h); unreadable == 0 {
				t.Errorf("%d pages have a span, and all are readable", pages)
			}
		})
	}
}

// TestStableMemoryNewer observes a program whose release seems to be newer than those that Loupe supports.
func TestStableMemoryNewer(t *testing.T) {
	exe, err := os.ReadFile(testtarget.Build(t, testtarget.Spec{Program: "larder"}))
	if err != nil {
		t.Fatal(err)
	}
	newer := fmt.Sprintf("go1.%d.", gobin.NewestMinor+1)
	exe = bytes.ReplaceAll(exe, []byte(fmt.Sprintf("go1.%d.", gobin.NewestMinor)), []byte(newer))
	path := filepath.Join(t.TempDir(), "larder")
	if err := os.WriteFile(path, exe, 0o777); err != nil {
		t.Fatal(err)
	}
	p := openLarder(t, testtarget.Start(t, path))
	s, err := p.StableMemory()
	if err == nil || !strings.Contains(err.Error(), "the runtime of "+newer) || s.Heap != (HeapMap{}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// addrOf returns the address of a variable on the heap.
func addrOf[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// TestStableMemoryStarting reads the memory of a program that has no goroutines yet: it says where the map of the heap will be.
func TestStableMemoryStarting(t *testing.T) {
	p, err := Open(os.Getpid(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	none := new(uint64)
	p.rt.allglen, p.rt.allgptr = addrOf(none), addrOf(none)
	s, err := p.StableMemory()
	if err != nil || s.Heap.Arenas != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	p.checkImage(t, s.Image)
	h, err := p.findHeapMap()
	if err != nil {
		t.Fatal(err)
	}
	if arenas, err := p.mem.u64(s.Heap.Starting.Arenas); err != nil || arenas != h.Arenas || s.Heap.Base != h.Base || s.Heap.Spans != h.Spans {
		t.Errorf("the map is at %#x, %v; %+v, want %+v", arenas, err, s.Heap, h)
	}
	var names []string
	for _, name := range []string{"efence", "harddecommit"} {
		addr, ok := p.main.bin.Setting(name)
		if ok && slices.Contains(s.Heap.Starting.Faults[:], addr+p.main.bias) {
			names = append(names, name)
		}
	}
	if len(names) != 2 {
		t.Errorf("%+v has the settings %q", s.Heap.Starting, names)
	}
}

// TestStableImage maps the executable of this process once more: the mapping is not part of the image, since the program may unmap it.
func TestStableImage(t *testing.T) {
	p, err := Open(os.Getpid(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mapped, err := unix.Mmap(int(p.main.bin.File().Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	s, err := p.StableMemory()
	if err != nil {
		t.Fatal(err)
	}
	p.checkImage(t, s.Image)
	if contains(s.Image, addrOf(&mapped[0])) {
		t.Errorf("%x has %p", s.Image, &mapped[0])
	}
}

func TestMappedReadable(t *testing.T) {
	maps := []procmap.Mapping{
		{Start: 0x1000, End: 0x3000, Perms: "r-xp"}, {Start: 0x3000, End: 0x4000, Perms: "r--p"}, {Start: 0x4000, End: 0x5000, Perms: "---p"},
		{Start: 0x6000, End: 0x7000, Perms: "rw-p"},
	}
	for _, c := range []struct {
		e    Extent
		good bool
	}{
		{Extent{0x1000, 0x3000}, true}, {Extent{0x2fff, 2}, true}, {Extent{0x3fff, 1}, true}, {Extent{0x3fff, 2}, false},
		{Extent{0xfff, 2}, false}, {Extent{0x4000, 1}, false}, {Extent{0x5000, 1}, false}, {Extent{0x3000, 0x4000}, false},
		{Extent{0x6000, 0x1000}, true}, {Extent{0x6000, 0x1001}, false}, {Extent{0x6000, 0}, false}, {Extent{0x6000, ^uint64(0)}, false},
		{Extent{0x8000, 1}, false},
	} {
		if got := mappedReadable(maps, c.e); got != c.good {
			t.Errorf("%#x: %t", c.e, got)
		}
	}
}

// TestHeapMapLayout checks the constants in the table.
func TestHeapMapLayout(t *testing.T) {
	for _, version := range testtarget.AllVersions() {
		for _, arch := range []string{"amd64", "arm64"} {
			l, err := layout.ForVersion("go"+version, arch)
			if err != nil {
				t.Fatal(err)
			}
			spans, ok := l.Field("runtime.heapArena.spans")
			if !ok || spans.Size != arenaBytes/pageBytes*8 {
				t.Errorf("%s %s: heapArena.spans %+v", version, arch, spans)
			}
			// With more elements, the index has an upper part (arenaL1Bits).
			if arenas, ok := l.Field("runtime.mheap.arenas"); !ok || arenas.Size != 8 {
				t.Errorf("%s %s: mheap.arenas %+v", version, arch, arenas)
			}
		}
	}
}
