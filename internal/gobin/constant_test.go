package gobin_test

import (
	"bytes"
	"math"
	"os"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
)

// TestConstant reads the test's own executable.
func TestConstant(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := gobin.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	f, ok := b.LookupFunc("runtime.main")
	if !ok {
		t.Fatal("no runtime.main")
	}
	want, err := b.Code(f)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Constant(f.Entry, 16); err != nil || !bytes.Equal(got, want[:16]) {
		t.Errorf("%x, %v, want %x", got, err, want[:16])
	}
	for _, s := range b.Segments() {
		for _, size := range []int{-1, math.MaxInt} {
			if got, err := b.Constant(s.Addr, size); err == nil {
				t.Errorf("%d bytes at %#x: %d", size, s.Addr, len(got))
			}
		}
	}
	if got, err := b.Constant(b.Module().Addr, 8); err == nil {
		t.Errorf("the module's data is a constant: %x", got)
	}
	if got, err := b.Constant(0, 1); err == nil {
		t.Errorf("%x", got)
	}
}
