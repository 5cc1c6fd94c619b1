package layout

import (
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

// BenchmarkFromDWARF reads the executable that LOUPE_BENCH_BINARY names, such as a large one, else a small program.
func BenchmarkFromDWARF(b *testing.B) {
	path := os.Getenv("LOUPE_BENCH_BINARY")
	if path == "" {
		path = buildProbe(b, "amd64")
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fromFile(path); err != nil {
			b.Fatal(err)
		}
	}
}
