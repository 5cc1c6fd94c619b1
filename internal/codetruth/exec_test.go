package codetruth

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/codepatchtest"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// runCase is a function in assembler. The code between the labels func and end is the function, what stands before is
// its data and what it calls. A line PROBE, right before the label site or at a stack check behind the branch, is where the
// probe is expected to run.
type runCase struct {
	name string
	kind insn.SiteKind
	code string
	// hits is how often each call passes the site, by the small number it gets; nil: once.
	hits func(small uint64) uint64
	// start is the label at which the replaced bytes begin; empty: site.
	start string
	live  bool // flags are needed after the site
	fault bool // displaced instructions may fault
}

const probeLine = "PROBE\n"

// rig is what all cases of an architecture share.
type rig struct {
	arch   string
	driver []byte
	probe  string            // source of a probe that leaves the flags alone
	probes map[string][]byte // its code, and that of those that leave others behind
}

const flagsKept = "flags kept"

func newRig(t *testing.T, arch string) rig {
	t.Helper()
	r := rig{arch: arch, driver: assemble(t, arch, source(t, "driver_"+arch+".s")).code, probe: source(t, "probe_"+arch+".s")}
	r.probes = map[string][]byte{flagsKept: assemble(t, arch, r.probe).code}
	for _, value := range map[string][]string{insn.AMD64: {"0xd5", "0x40"}, insn.ARM64: {"0xf000", "0x0000"}}[arch] {
		r.probes["flags "+value] = assemble(t, arch, ".set TRASH, "+value+"\n"+r.probe).code
	}
	return r
}

// TestRun runs each function as it is, with the probe written into its source, and patched. The patched one must leave what
// the original leaves, and its probe must see what the one in the source sees.
func TestRun(t *testing.T) {
	for arch, cases := range map[string][]runCase{insn.AMD64: amd64Cases, insn.ARM64: arm64Cases} {
		t.Run(arch, func(t *testing.T) {
			r := newRig(t, arch)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, r)
				})
			}
		})
	}
}

func (c runCase) run(t *testing.T, r rig) {
	arch, base := r.arch, funcAddrs[r.arch]
	plain := assemble(t, arch, strings.ReplaceAll(c.code, probeLine, ""))
	woven := assemble(t, arch, strings.ReplaceAll(c.code, probeLine, r.probe))
	label := func(name string) uint64 {
		off, ok := plain.labels[name]
		if !ok {
			t.Fatalf("no label %s", name)
		}
		return base + uint64(off)
	}
	entry := label("func")
	f := codepatch.Function{Arch: arch, Entry: entry, Code: plain.code[entry-base : label("end")-base]}
	site := insn.Site{PC: label("site"), Kind: c.kind}
	d, err := codepatch.Plan(f, site)
	if err != nil {
		t.Fatal(err)
	}
	start := label(cmp.Or(c.start, "site"))
	if d.Start != start || d.FlagsLive != c.live || d.MayFault != c.fault {
		t.Errorf("starts at %#x, want %#x; flags live %v, may fault %v", d.Start, start, d.FlagsLive, d.MayFault)
	}
	before := run(t, r, entry, blob{base, plain.code})
	oracle := run(t, r, base+uint64(woven.labels["func"]), blob{base, woven.code})
	lo, hi, err := codepatch.Reach(d)
	if err != nil {
		t.Fatal(err)
	}
	try := func(probe string, at uint64) {
		patched := runPatched(t, r, f, d, at, r.probes[probe], plain.code)
		for n := range patched {
			c.compare(t, fmt.Sprintf("%s, stub at %#x, call %d", probe, at, n), arch, before[n], oracle[n], patched[n])
		}
	}
	try(flagsKept, (lo+3)&^3)
	try(flagsKept, (hi-uint64(d.StubLen(len(r.probes[flagsKept]))))&^3)
	for probe := range r.probes {
		if probe == flagsKept || !c.live {
			try(probe, base+1<<20)
		}
	}
	codepatchtest.CheckSame(t, f, site, d, base+1<<20)
}

// runPatched runs the function with its stub at an address.
func runPatched(t *testing.T, r rig, f codepatch.Function, d *codepatch.Displacement, at uint64, body, code []byte) []record {
	t.Helper()
	base := funcAddrs[f.Arch]
	stub, err := d.Stub(at, func(addr uint64) []byte { return body })
	if err != nil {
		t.Fatal(err)
	}
	jump, err := d.Jump(at)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(code)
	copy(changed[d.Start-base:d.End-base], jump)
	return run(t, r, f.Entry, blob{base, changed}, blob{at, stub})
}

func (c runCase) compare(t *testing.T, name, arch string, before, oracle, patched record) {
	t.Helper()
	hits := uint64(1)
	if c.hits != nil {
		hits = c.hits(before.u64(inRegs + 8*roles[arch].small))
	}
	if n := oracle.probes(); n != hits {
		t.Fatalf("%s: the test expects %d hits, the probe in the source has %d", name, hits, n)
	}
	if n := patched.probes(); n != hits {
		t.Errorf("%s: %d hits, want %d", name, n, hits)
	}
	if n := before.probes(); n != 0 {
		t.Errorf("%s: %d hits without a patch", name, n)
	}
	want, got := before.result(), patched.result()
	if !c.live { // the probe may change flags that nobody needs
		const flags = 0x40 + outFlags - outRegs
		copy(got[flags:flags+8], want[flags:flags+8])
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %s", name, difference(got, want))
	}
	seen := record(bytes.Clone(oracle.seen()))
	if c.kind == insn.SiteCall && hits > 0 {
		if arch == insn.AMD64 {
			seen.put(8*4, seen.u64(8*4)-8) // the return address is on the stack already
		} else {
			seen.put(8*30, patched.u64(probeLog+8*30)) // or in the link register
		}
	}
	if !bytes.Equal(patched.seen(), seen) {
		t.Errorf("%s: the probe sees: %s", name, difference(patched.seen(), seen))
	}
}
