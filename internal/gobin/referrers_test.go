package gobin_test

import (
	"debug/elf"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestReferrers compares the functions that compute the address of a variable with those in which the operands of instructions say so.
func TestReferrers(t *testing.T) {
	const variable = "runtime.firstmoduledata" // another variable points to it
	for _, spec := range []testtarget.Spec{
		{Program: "smith"}, {Program: "smith", PIE: true}, {Program: "smith", Go: "1.19.13"}, {Program: "smith", Arch: testtarget.ARM64},
	} {
		if spec.Go != "" && !testtarget.Complete() {
			continue
		}
		t.Run(spec.String(), func(t *testing.T) {
			path := testtarget.Build(t, spec)
			bin, err := gobin.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer bin.Close()
			addr := address(t, path, variable)
			functions, words, err := bin.Referrers(addr)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, f := range functions {
				got = append(got, f.Name)
			}
			for f := range bin.Functions() {
				code, err := bin.Code(f)
				if err != nil {
					continue
				}
				refs, err := insn.Refs(insn.Code{Arch: bin.Arch(), Entry: f.Entry, Bytes: code})
				if err != nil {
					continue
				}
				if slices.ContainsFunc(refs, func(r insn.Ref) bool { return r.Addr == addr && r.AddressTaken() && (r.Op == "LEA" || r.Op == "ADD") }) {
					want = append(want, f.Name)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if got, want = slices.Compact(got), slices.Compact(want); len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("functions %q, want %q", got, want)
			}
			if words != 1 {
				t.Errorf("%d words, want 1", words)
			}
			if functions, words, err := bin.Referrers(addr + 3); len(functions) != 0 || words != 0 || err != nil {
				t.Errorf("%d functions and %d words have an address in a variable, %v", len(functions), words, err)
			}
		})
	}
}

// address returns the address of a symbol.
func address(t *testing.T, path, name string) uint64 {
	t.Helper()
	_, symbols := symbolsOf(t, path)
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no symbol %s", name)
	}
	return symbols[i].Value
}

// symbolsOf returns an executable and its symbol table.
func symbolsOf(t *testing.T, path string) (*elf.File, []elf.Symbol) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return f, symbols
}
