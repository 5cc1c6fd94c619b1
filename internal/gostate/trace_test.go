package gostate_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/trace"
)

// TestTraces follows the goroutines of traces that Go's runtime has written: each event fits the state before it.
func TestTraces(t *testing.T) {
	paths, err := filepath.Glob("../../trace/testdata/tiny/*.trace.gz")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := trace.NewReader(unpacked)
		if err != nil {
			t.Fatal(path, err)
		}
		states := map[uint64]gostate.State{}
		seen := map[event.Kind]int{}
		for e, err := range r.Events() {
			if err != nil {
				t.Fatal(path, err)
			}
			if !gostate.About(e.Kind) {
				continue
			}
			seen[e.Kind]++
			if fit := gostate.FitOf(e.Kind, states[e.G]); fit == gostate.Misfit {
				t.Errorf("%s: %v of goroutine %d, which is %q", path, e.Kind, e.G, states[e.G].Name())
			}
			states[e.G] = gostate.After(e)
		}
		for _, kind := range []event.Kind{event.GoCreate, event.GoStart, event.GoBlock, event.GoUnblock, event.GoDestroy} {
			if seen[kind] == 0 {
				t.Errorf("%s has no %v", path, kind)
			}
		}
	}
}
