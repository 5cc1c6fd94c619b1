package gobin_test

import (
	"io"
	"os"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// probed are runtime functions that exist in every release, with the argument words that a probe wants.
var probed = map[string]int{
	"runtime.newproc1": 2, "runtime.gopark": 4, "runtime.ready": 1, "runtime.execute": 1, "runtime.goexit1": 0,
	"runtime.goschedImpl": 1, "runtime.chansend": 2, "runtime.chanrecv": 2, "runtime.mallocgc": 1, "runtime.gcStart": 1,
	"runtime.casgstatus": 3, "runtime.injectglist": 1, "runtime.closechan": 1,
}

// TestProbeSites finds the places for probes in every executable: on both architectures, and the same in stripped ones.
func TestProbeSites(t *testing.T) {
	for _, spec := range diskMatrix(t) {
		t.Run(spec.String(), func(t *testing.T) {
			b := open(t, spec)
			file, err := os.Open(b.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			for name, words := range probed {
				f, ok := b.LookupFunc(name)
				if !ok {
					t.Errorf("%s is not there", name)
					continue
				}
				site, err := b.PrologueSite(f, words)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				// Functions without a stack check had nothing cheap before Go 1.21.
				nosplit := name == "runtime.casgstatus"
				if !site.Emulated && !(nosplit && b.Version().Minor < 21) {
					t.Errorf("%s: the kernel single-steps the site %+v", name, site)
				}
				off, ok := b.FileOffset(site.PC)
				if !ok {
					t.Errorf("%s: no file offset of %#x", name, site.PC)
					continue
				}
				code, err := b.Code(f)
				if err != nil {
					t.Fatal(err)
				}
				raw := make([]byte, site.Len)
				if _, err := io.ReadFull(io.NewSectionReader(file, int64(off), int64(site.Len)), raw); err != nil {
					t.Fatal(err)
				}
				if string(raw) != string(code[site.Offset:site.Offset+site.Len]) {
					t.Errorf("%s: offset %#x holds % x, not the instruction", name, off, raw)
				}
			}
		})
	}
}

// TestCallSites checks that calls lead to functions and returns are found where a function has any.
func TestCallSites(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "tiny") {
		spec.Stripped = true
		t.Run(spec.String(), func(t *testing.T) {
			b := open(t, spec)
			f, ok := b.LookupFunc("runtime.newproc1")
			if !ok {
				t.Fatal("no runtime.newproc1")
			}
			calls, err := b.CallSites(f)
			if err != nil {
				t.Fatal(err)
			}
			called := map[string]bool{}
			for _, c := range calls {
				if target, ok := b.FuncForPC(c.Target); ok && target.Entry == c.Target {
					called[target.Name] = true
				}
			}
			if !called["runtime.casgstatus"] {
				t.Errorf("newproc1 calls %v, want casgstatus among them", called)
			}
			if returns, err := b.ReturnSites(f); err != nil || len(returns) == 0 {
				t.Errorf("returns of newproc1: %v, %v", returns, err)
			}
		})
	}
}
