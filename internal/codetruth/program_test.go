package codetruth

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// Whole Go programs are patched on disk, at all sites of all probes at once, and run. Each site has a counter in a segment
// that is added to the executable, followed by the stubs.

// segments is where that segment is, within reach of the text of either architecture.
var segments = map[string]uint64{insn.AMD64: 0x1000_0000, insn.ARM64: 0x0400_0000}

const (
	countersLen = 0x10000
	magic       = 0x6c6f757065736974 // the first counter, to know the segment by
)

// patchedProgram is an executable whose sites count.
type patchedProgram struct {
	path     string
	arch     string
	counters map[string][]uint64 // addresses, by probe
}

// counting returns a probe that adds to the counter at an address below 2 GiB.
type counting struct {
	arch string
	arm  assembled
}

func newCounting(t *testing.T, arch string) counting {
	c := counting{arch: arch}
	if arch == insn.ARM64 {
		c.arm = assemble(t, arch, `
	sub sp, sp, #64
	stp x16, x17, [sp]
	str x15, [sp, #16]
high:	movz x16, #0, lsl #16
low:	movk x16, #0
again:	ldxr x17, [x16]
	add x17, x17, #1
	stxr w15, x17, [x16]
	cbnz w15, again
	ldr x15, [sp, #16]
	ldp x16, x17, [sp]
	add sp, sp, #64
`)
	}
	return c
}

func (c counting) body(counter uint64, flagsLive bool) []byte {
	if c.arch == insn.ARM64 {
		code := bytes.Clone(c.arm.code)
		for label, half := range map[string]uint64{"high": counter >> 16, "low": counter & 0xFFFF} {
			at := code[c.arm.labels[label]:]
			binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|uint32(half)<<5)
		}
		return code
	}
	inc := binary.LittleEndian.AppendUint32([]byte{0xF0, 0x48, 0xFF, 0x04, 0x25}, uint32(counter)) // LOCK INC
	if flagsLive {
		return slices.Concat([]byte{0x9C}, inc, []byte{0x9D}) // PUSHF, POPF
	}
	return append(inc, 0xF5, 0x84, 0xE4) // CMC, TEST: no flag is left as it was
}

// patcher patches the sites of an executable, one after the other.
type patcher struct {
	patchedProgram
	bin      *gobin.Binary
	file     []byte
	segment  []byte
	counting counting
	counter  uint64
}

func newPatcher(t *testing.T, bin *gobin.Binary) *patcher {
	t.Helper()
	file, err := os.ReadFile(bin.Path())
	if err != nil {
		t.Fatal(err)
	}
	base := segments[bin.Arch()]
	p := &patcher{bin: bin, file: file, segment: make([]byte, countersLen), counting: newCounting(t, bin.Arch()), counter: base}
	p.patchedProgram = patchedProgram{arch: bin.Arch(), counters: map[string][]uint64{"": {base}}}
	binary.LittleEndian.PutUint64(p.segment, magic)
	return p
}

// newCounter adds a counter to those of a name.
func (p *patcher) newCounter(name string) {
	p.counter += 8
	p.counters[name] = append(p.counters[name], p.counter)
}

// patch lets a site count with the newest counter.
func (p *patcher) patch(t *testing.T, d *codepatch.Displacement) {
	t.Helper()
	at := segments[p.arch] + uint64(len(p.segment))
	stub, err := d.Stub(at, func(uint64) []byte { return p.counting.body(p.counter, d.FlagsLive) })
	if err != nil {
		t.Fatal(err)
	}
	jump, err := d.Jump(at)
	if err != nil {
		t.Fatal(err)
	}
	off, ok := p.bin.FileOffset(d.Start)
	if !ok || !bytes.Equal(p.file[off:off+uint64(len(d.Old))], d.Old) {
		t.Fatalf("%#x is not in the file, or patched already", d.Start)
	}
	copy(p.file[off:], jump)
	p.segment = append(p.segment, stub...)
	p.segment = append(p.segment, make([]byte, -len(p.segment)&15)...)
}

func (p *patcher) write(t *testing.T) patchedProgram {
	t.Helper()
	p.path = addSegment(t, p.file, segments[p.arch], p.segment)
	return p.patchedProgram
}

// patchProgram makes an executable with all probes in place.
func patchProgram(t *testing.T, spec testtarget.Spec) patchedProgram {
	t.Helper()
	exe := probetest.Open(t, spec)
	bin := exe.Binary()
	plan, _, err := probe.NewPlan(exe, probe.Want{Kinds: event.KindsAll, StackDepth: 32})
	if err != nil {
		t.Fatal(err)
	}
	p := newPatcher(t, bin)
	for _, pr := range plan.Probes {
		for _, s := range pr.Sites {
			f, _ := bin.FuncForPC(s.Addr)
			d, err := codepatch.Plan(function(t, bin, f), siteAt(t, bin, f, s.Addr))
			if err != nil {
				t.Fatal(err)
			}
			p.newCounter(pr.Program)
			p.patch(t, d)
		}
	}
	return p.write(t)
}

// patchEverywhere makes an executable in which every function counts where it begins, calls and returns, as far as that can
// be planned.
func patchEverywhere(t *testing.T, spec testtarget.Spec) patchedProgram {
	t.Helper()
	bin := probetest.Open(t, spec).Binary()
	entered := map[uint64]bool{} // where functions jump or call into
	for f := range bin.Functions() {
		calls, _ := bin.CallSites(f)
		for _, c := range calls {
			entered[c.Target] = true
		}
	}
	p := newPatcher(t, bin)
	p.newCounter("everywhere")
	sites := 0
	for f := range bin.Functions() {
		fn := function(t, bin, f)
		for pc := f.Entry; pc < f.End; pc++ {
			if entered[pc] {
				fn.Entries = append(fn.Entries, pc)
			}
		}
		var taken []*codepatch.Displacement
		for _, site := range sitesOf(bin, f) {
			d, err := codepatch.Plan(fn, site)
			if err != nil || d.MayFault || slices.ContainsFunc(taken, d.Overlaps) {
				continue
			}
			taken = append(taken, d)
			p.patch(t, d)
		}
		sites += len(taken)
	}
	t.Logf("%d sites", sites)
	return p.write(t)
}

// sitesOf returns a function's prologue, calls and returns.
func sitesOf(bin *gobin.Binary, f gobin.Func) []insn.Site {
	var sites []insn.Site
	if site, err := bin.PrologueSite(f, 9); err == nil {
		sites = append(sites, site)
	}
	calls, _ := bin.CallSites(f)
	for _, c := range calls {
		kind := insn.SiteCall
		if c.Tail {
			kind = insn.SiteBranch
		}
		sites = append(sites, insn.Site{PC: c.PC, Kind: kind})
	}
	returns, _ := bin.ReturnSites(f)
	for _, r := range returns {
		sites = append(sites, r.Site)
	}
	return sites
}

// addSegment writes an executable with one more segment, which takes the place of a note.
func addSegment(t *testing.T, file []byte, addr uint64, segment []byte) string {
	t.Helper()
	const page = 0x10000
	file = append(file, make([]byte, -len(file)&(page-1))...)
	phoff, n := binary.LittleEndian.Uint64(file[32:]), int(binary.LittleEndian.Uint16(file[56:]))
	for i := range n {
		at := file[phoff+56*uint64(i):]
		if elf.ProgType(binary.LittleEndian.Uint32(at)) != elf.PT_NOTE {
			continue
		}
		var head bytes.Buffer
		binary.Write(&head, binary.LittleEndian, elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W | elf.PF_X), Off: uint64(len(file)),
			Vaddr: addr, Paddr: addr, Filesz: uint64(len(segment)), Memsz: uint64(len(segment)), Align: page,
		})
		copy(at, head.Bytes())
		path := filepath.Join(t.TempDir(), "patched")
		syscall.ForkLock.RLock() // see writeELF
		defer syscall.ForkLock.RUnlock()
		if err := os.WriteFile(path, append(file, segment...), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Fatal("no segment to replace")
	return ""
}

// runningProgram is a patched program that runs.
type runningProgram struct {
	patchedProgram
	*testtarget.Process
	t *testing.T
}

func (p patchedProgram) start(t *testing.T, args ...string) runningProgram {
	t.Helper()
	words := append([]string{p.path}, args...)
	if p.arch != runtime.GOARCH {
		words = append(emulator(t, p.arch), words...)
	}
	r := runningProgram{p, testtarget.StartCmd(t, testcmd.Within(t, 0, words[0], words[1:]...)), t}
	if n := r.count(""); n != magic {
		t.Fatalf("the counters are not where they should be: %#x", n)
	}
	return r
}

// count adds up the counters of a probe.
func (r runningProgram) count(program string) uint64 {
	r.t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", r.PID()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer mem.Close()
	sum := uint64(0)
	for _, addr := range r.counters[program] {
		var b [8]byte
		if _, err := mem.ReadAt(b[:], int64(addr)); err != nil {
			r.t.Fatal(err)
		}
		sum += binary.LittleEndian.Uint64(b[:])
	}
	return sum
}

// command gives the program a command and checks how often probes were passed meanwhile: at least so often, and with some
// allowance for what the runtime does besides.
func (r runningProgram) command(line string, want map[string]uint64) {
	r.t.Helper()
	const besides = 200
	before := map[string]uint64{}
	for program := range want {
		before[program] = r.count(program)
	}
	if answer := r.Command(line); strings.HasPrefix(answer, "error") {
		r.t.Fatal(answer)
	}
	for program, n := range want {
		got := r.count(program) - before[program]
		for end := time.Now().Add(time.Minute); got < n && time.Now().Before(end); { // the last goroutine may still be ending
			time.Sleep(time.Millisecond)
			got = r.count(program) - before[program]
		}
		if got < n || got > n+besides {
			r.t.Errorf("%s: probe %s was passed %d times, want %d or few more", line, program, got, n)
		}
	}
}

// millCounts are commands of program mill and how often they pass probes that nothing else passes often.
func millCounts(minor int) []struct {
	line string
	want map[string]uint64
} {
	create := "newproc_runqput"
	if minor >= 24 {
		create = "newproc1_casgstatus"
	}
	return []struct {
		line string
		want map[string]uint64
	}{
		{"chans 500", map[string]uint64{"makechan": 500, "chansend": 1000, "chanrecv": 500, "selectgo": 500, "closechan": 500}},
		{"spawn 500", map[string]uint64{create: 500, "goexit0": 500}},
		{"locks 5", map[string]uint64{"semacquire1": 1, "semrelease1": 1}}, // on a busy machine not all five wait
		{"gc", map[string]uint64{"gcMarkTermination": 2, "gcSweep": 2}},
		{"pingpong 500", map[string]uint64{"chansend": 1000}},
	}
}

// TestPrograms runs a program of each release with all probes in place. Its own counts are known.
func TestPrograms(t *testing.T) {
	for _, version := range testtarget.Ends(t, testtarget.Versions()) {
		for _, arch := range []string{testtarget.AMD64, testtarget.ARM64} {
			spec := testtarget.Spec{Program: "mill", Go: version, Arch: arch}
			t.Run(spec.String(), func(t *testing.T) {
				foreign(t, spec.Arch)
				t.Parallel()
				r := patchProgram(t, spec).start(t)
				minor, err := gobin.ParseVersion("go" + version)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range millCounts(minor.Minor) {
					r.command(c.line, c.want)
				}
				r.Stop()
			})
		}
	}
}

// TestChurn lets programs that grow stacks, panic, recover and collect garbage all the time check their own results with all
// probes in place.
func TestChurn(t *testing.T) {
	specs := []testtarget.Spec{{Program: "churn", Go: testtarget.Latest(), Arch: testtarget.ARM64}}
	for _, version := range testtarget.Among(t, sweepVersions...) {
		specs = append(specs, testtarget.Spec{Program: "churn", Go: version, Arch: testtarget.AMD64})
	}
	for _, spec := range specs {
		t.Run(spec.String(), func(t *testing.T) {
			foreign(t, spec.Arch)
			t.Parallel()
			r := patchProgram(t, spec).start(t)
			for begun := time.Now(); r.count("goexit0") < 100 && time.Since(begun) < time.Minute; {
				time.Sleep(50 * time.Millisecond)
			}
			if sum := r.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
				t.Error(sum)
			}
			ended := r.count("goexit0") // before the others: they go on
			created := r.count("newproc_runqput") + r.count("newproc1_casgstatus")
			if created < 100 || ended < 100 || created+50 < ended {
				t.Errorf("%d goroutines created, %d ended", created, ended)
			}
			r.Stop()
		})
	}
}

// TestEverywhere lets the same programs check their results when all their functions, those of the runtime and its assembly
// among them, are patched at every place that can be planned.
func TestEverywhere(t *testing.T) {
	for _, arch := range []string{testtarget.AMD64, testtarget.ARM64} {
		for _, version := range testtarget.Among(t, sweepVersions...) {
			spec := testtarget.Spec{Program: "churn", Go: version, Arch: arch}
			t.Run(spec.String(), func(t *testing.T) {
				foreign(t, spec.Arch)
				t.Parallel()
				r := patchEverywhere(t, spec).start(t)
				for begun := time.Now(); r.count("everywhere") < 100_000 && time.Since(begun) < time.Minute; {
					time.Sleep(50 * time.Millisecond)
				}
				if sum := r.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
					t.Error(sum)
				}
				r.Command("gc")
				if n := r.count("everywhere"); n < 100_000 {
					t.Errorf("%d sites were passed", n)
				} else {
					t.Logf("%d sites were passed", n)
				}
				r.Stop()
			})
		}
	}
}
