package glti

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime/pprof"
	"testing"
)

// FuzzProfile checks that no profile makes the package panic.
func FuzzProfile(f *testing.F) {
	var buf bytes.Buffer
	if err := pprof.StartCPUProfile(&buf); err != nil {
		f.Fatal(err)
	}
	burn()
	pprof.StopCPUProfile()
	gz, err := gzip.NewReader(&buf)
	if err != nil {
		f.Fatal(err)
	}
	data, err := io.ReadAll(gz)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{0x12, 0x04, 0x08, 0x01, 0x10, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		samples, err := parsePlainProfile(data)
		for i := range samples {
			for _, loc := range samples[i].stack {
				if loc == nil || err != nil {
					t.Errorf("sample %d of a bad profile: %v", i, err)
				}
			}
		}
	})
}
