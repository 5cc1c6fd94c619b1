package goproc

import (
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestMappedBias finds where an executable was loaded by the mappings, as by what the kernel tells the program.
func TestMappedBias(t *testing.T) {
	for _, spec := range []testtarget.Spec{{PIE: true}, {PIE: true, Cgo: true}} {
		spec.Program = "tiny"
		target := testtarget.Start(t, testtarget.Build(t, spec))
		p, err := Open(target.PID(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		bias, err := p.mappedBias(p.Binary())
		if err != nil || bias == 0 || bias != p.LoadBias() {
			t.Errorf("%v: %#x by the mappings, %v; %#x by the entry point", spec, bias, err, p.LoadBias())
		}
	}
}
