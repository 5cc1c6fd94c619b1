package insntruth

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// splitFunctions check the stack, in every release that has them.
var splitFunctions = []string{
	"newproc1", "gopark", "ready", "execute", "goexit0", "goexit1", "goschedImpl", "mallocgc", "chansend",
	"chanrecv", "semacquire1", "semrelease1", "injectglist", "gcStart", "gcMarkTermination", "makechan",
	"closechan",
}

// nosplitFunctions do not.
var nosplitFunctions = []string{"casgstatus", "entersyscall", "reentersyscall", "exitsyscall"}

// frameChain is the Go 1 minor whose amd64 functions first push the frame pointer.
const frameChain = 21

func TestPrologueSitesOfRuntime(t *testing.T) {
	eachTarget(t, func(t *testing.T, p *program) {
		for _, name := range splitFunctions {
			s := siteOf(t, p, "runtime."+name)
			if s.Kind != insn.SiteStackCheck || !s.Emulated || s.Repeats || s.SPMoved != 0 || !s.CheckTaken {
				t.Errorf("runtime.%s: %+v, want the branch of its stack check", name, s)
			}
		}
		for _, name := range nosplitFunctions {
			s := siteOf(t, p, "runtime."+name)
			if s.Kind == insn.SiteStackCheck || s.CheckTaken || s.Repeats {
				t.Errorf("runtime.%s: %+v, but it does not check the stack", name, s)
			}
			if p.arch == insn.AMD64 && p.minor >= frameChain && (s.Kind != insn.SitePush || s.Offset != 0 || !s.Emulated) {
				t.Errorf("runtime.%s: %+v, want the push at the entry", name, s)
			}
		}
	})
}

// prologueSite is EntrySite for a function of which all argument words matter.
func prologueSite(c insn.Code, minor int) (insn.Site, error) {
	const words = 16 // the most registers that an architecture passes arguments in
	return insn.EntrySite(c, minor, words)
}

func siteOf(t *testing.T, p *program, name string) insn.Site {
	t.Helper()
	c, ok := p.lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	s, err := prologueSite(c, p.minor)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// In every function the stack check is found exactly if the function calls
// runtime.morestack, and the site is on the instruction that its kind names.
func TestPrologueSitesOfAllFunctions(t *testing.T) {
	eachTarget(t, func(t *testing.T, p *program) {
		grow := make(map[uint64]bool)
		for name, s := range p.syms {
			if strings.HasPrefix(name, "runtime.morestack") {
				grow[s.Value] = true
			}
		}
		checked := 0
		for _, f := range p.funcs {
			if strings.HasPrefix(f.Name, "runtime.morestack") {
				continue // morestack_noctxt jumps to morestack, morestackc calls badmorestack
			}
			c, _ := p.code(f)
			calls, err := insn.Calls(c)
			if err != nil {
				t.Fatal(err)
			}
			checks := slices.ContainsFunc(calls, func(call insn.Call) bool { return grow[call.Target] && !call.Tail })
			s, err := prologueSite(c, p.minor)
			if err != nil {
				t.Fatal(err)
			}
			if found := s.Kind == insn.SiteStackCheck; found != checks {
				t.Errorf("%s: %+v, but it calls morestack: %v", f.Name, s, checks)
			}
			if checks {
				checked++
				checkSplitSite(t, p, f, c, s)
			}
		}
		if checked < 500 {
			t.Errorf("%d functions with a stack check: too few to mean anything", checked)
		}
	})
}

// checkSplitSite looks at the bytes at the site of a function with a stack check.
func checkSplitSite(t *testing.T, p *program, f elf.Symbol, c insn.Code, s insn.Site) {
	t.Helper()
	b := c.Bytes[s.Offset:]
	switch {
	case p.arch == insn.ARM64:
		if w := binary.LittleEndian.Uint32(b); w&0xFF00001F != 0x54000009 {
			t.Errorf("%s: %08x at the site is no b.ls", f.Name, w)
		}
	case b[0] != 0x76 && (b[0] != 0x0F || b[1] != 0x86):
		t.Errorf("%s: % x at the site is no jbe", f.Name, b[:2])
	}
	if s.PC != c.Entry+uint64(s.Offset) || !s.Emulated {
		t.Errorf("%s: %+v", f.Name, s)
	}
	if want := map[bool]string{true: "RCX"}[p.arch == insn.AMD64 && p.minor < 17]; want != "" && s.GReg != want {
		t.Errorf("%s: g is in %q at the site, want %s", f.Name, s.GReg, want)
	}
}

// The stack pointer is where the linker's frame tables say, at every site of
// every function that the compiler made.
func TestSiteStackPointer(t *testing.T) {
	eachTarget(t, func(t *testing.T, p *program) {
		fr := loadFrames(t, p)
		sites, moved := 0, 0
		check := func(f elf.Symbol, s insn.Site) {
			want, ok := fr.moved(t, s.PC)
			if !ok {
				return
			}
			sites++
			if s.SPMoved != 0 {
				moved++
			}
			if s.SPMoved != want {
				t.Errorf("%s: %+v, but the stack pointer has moved by %d", f.Name, s, want)
			}
		}
		for _, f := range p.funcs {
			if strings.HasPrefix(f.Name, "runtime.asyncPreempt") {
				continue // undoes a push by the signal handler that injected the call
			}
			c, _ := p.code(f)
			for _, words := range []int{0, 2, 9} {
				s, err := insn.EntrySite(c, p.minor, words)
				if err != nil {
					t.Fatal(err)
				}
				check(f, s)
			}
			returns, err := insn.Returns(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range returns {
				check(f, r.Site)
				if r.Early != nil {
					check(f, *r.Early)
				}
			}
		}
		if sites < 3000 || moved < 2 {
			t.Errorf("%d sites, %d of them with a frame: too few to mean anything", sites, moved)
		}
	})
}

func TestTLSOffset(t *testing.T) {
	eachTarget(t, func(t *testing.T, p *program) {
		for name, last := range map[string]int{"runtime.gopark": 16, "runtime.systemstack": 99} {
			c, ok := p.lookup(name)
			if !ok {
				c, ok = p.lookup(name + ".abi0")
			}
			if !ok {
				t.Fatalf("no %s", name)
			}
			got, ok := insn.TLSOffset(c)
			if want := p.arch == insn.AMD64 && p.minor <= last; ok != want || ok && got != -8 {
				t.Errorf("%s: offset %d, %v", name, got, ok)
			}
		}
	})
}
