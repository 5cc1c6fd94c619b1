package chrome

import (
	"io"
	"testing"

	"github.com/loupe-go/loupe/internal/export/exporttest"
)

func BenchmarkWriter(b *testing.B) {
	exporttest.Bench(b, func(threads bool) exporttest.Exporter { return NewWriter(io.Discard, Options{Threads: threads}) })
}
