package layout

import (
	"debug/elf"
	"os"
	"testing"
)

func BenchmarkForVersion(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ForVersion("go1.22.5", "amd64"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFromDWARF reads the executable that LOUPE_BENCH_BINARY names, else the test's own, which "go test -o" leaves
// unstripped.
func BenchmarkFromDWARF(b *testing.B) {
	path := os.Getenv("LOUPE_BENCH_BINARY")
	if path == "" {
		path = "/proc/self/exe"
	}
	b.ReportAllocs()
	for b.Loop() {
		f, err := elf.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		d, ok := DWARFOf(f)
		if !ok {
			b.Skip("the executable has no DWARF; run with go test -ldflags=-w=0 -bench, or set LOUPE_BENCH_BINARY")
		}
		if _, err := FromDWARF(d); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
