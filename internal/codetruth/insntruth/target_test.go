package insntruth

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// program is an executable with its symbol table: the truth of these tests.
type program struct {
	name  string
	arch  string
	minor int // of the Go release that built it
	image *elf.File
	text  []byte
	base  uint64 // address of text
	syms  map[string]elf.Symbol
	funcs []elf.Symbol // by address
}

// load reads an executable.
func load(tb testing.TB, name, path string) *program {
	tb.Helper()
	f, err := elf.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	p := &program{name: name, arch: insn.AMD64, image: f, syms: make(map[string]elf.Symbol)}
	if f.Machine == elf.EM_AARCH64 {
		p.arch = insn.ARM64
	}
	text := f.Section(".text")
	if p.text, err = text.Data(); err != nil {
		tb.Fatal(err)
	}
	p.base = text.Addr
	all, err := f.Symbols()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range all {
		p.syms[s.Name] = s
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			if _, ok := p.code(s); ok {
				p.funcs = append(p.funcs, s)
			}
		}
	}
	sort.Slice(p.funcs, func(i, j int) bool { return p.funcs[i].Value < p.funcs[j].Value })
	return p
}

// code returns the code of a function.
func (p *program) code(s elf.Symbol) (insn.Code, bool) {
	off := s.Value - p.base
	if off >= uint64(len(p.text)) || off+s.Size > uint64(len(p.text)) {
		return insn.Code{}, false
	}
	return insn.Code{Arch: p.arch, Entry: s.Value, Bytes: p.text[off : off+s.Size]}, true
}

func (p *program) lookup(name string) (insn.Code, bool) {
	s, ok := p.syms[name]
	if !ok {
		return insn.Code{}, false
	}
	return p.code(s)
}

// isData says whether a range lies in a segment that is not code.
func (p *program) isData(addr uint64, size int) bool {
	for _, s := range p.image.Progs {
		if s.Type == elf.PT_LOAD && s.Flags&elf.PF_X == 0 && addr >= s.Vaddr && addr-s.Vaddr+uint64(size) <= s.Memsz {
			return true
		}
	}
	return false
}

// targets returns the specs that the tests of whole programs run on.
func targets(tb testing.TB) []testtarget.Spec {
	tb.Helper()
	return testtarget.Builds(tb, "zoo")
}

// eachTarget runs test on every one of targets.
func eachTarget(t *testing.T, test func(t *testing.T, p *program)) {
	t.Helper()
	eachOf(t, targets(t), test)
}

// eachOf runs test on the targets of specs.
func eachOf(t *testing.T, specs []testtarget.Spec, test func(t *testing.T, p *program)) {
	t.Helper()
	for _, spec := range specs {
		t.Run(spec.String(), func(t *testing.T) {
			p := load(t, spec.String(), testtarget.Build(t, spec))
			p.minor = minorOf(t, spec.Go)
			test(t, p)
		})
	}
}

func minorOf(tb testing.TB, version string) int {
	tb.Helper()
	minor, err := strconv.Atoi(strings.Split(version, ".")[1])
	if err != nil {
		tb.Fatal(err)
	}
	return minor
}

// newest is a target built by the newest release.
func newest(tb testing.TB) *program {
	tb.Helper()
	spec := testtarget.Spec{Program: "zoo", Go: testtarget.Latest(), Arch: insn.AMD64}
	p := load(tb, spec.String(), testtarget.Build(tb, spec))
	p.minor = minorOf(tb, spec.Go)
	return p
}

// largeFunction is the code of a function of the newest target nearest to ten kilobytes.
func largeFunction(tb testing.TB, arch string) insn.Code {
	tb.Helper()
	spec := testtarget.Spec{Program: "zoo", Go: testtarget.Latest(), Arch: arch}
	p := load(tb, spec.String(), testtarget.Build(tb, spec))
	const size = 10 << 10
	best := slices.MinFunc(p.funcs, func(a, b elf.Symbol) int {
		return cmp.Compare(max(a.Size, size)-min(a.Size, size), max(b.Size, size)-min(b.Size, size))
	})
	c, ok := p.code(best)
	if !ok {
		tb.Fatalf("no code of %s", best.Name)
	}
	return c
}

// within reports whether pc lies in the function.
func within(c insn.Code, pc uint64) bool { return pc-c.Entry < uint64(len(c.Bytes)) }
