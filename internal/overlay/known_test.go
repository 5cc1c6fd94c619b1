package overlay

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestKnown checks that the sources of a toolchain are patched once, and again when one of them has changed.
func TestKnown(t *testing.T) {
	tc := latest(t)
	first := made(t, tc, t.TempDir())
	copied := tc
	copied.Root = filepath.Join(t.TempDir(), "go")
	path := func(name string) string { return filepath.Join(copied.Root, "src", name) }
	for _, name := range first.Replaced {
		write(t, path(name), string(must(t, tc, name)))
	}
	cache := t.TempDir()
	if got := made(t, copied, cache); got.Fingerprint != first.Fingerprint {
		t.Errorf("fingerprint %s of the same sources, expected %s", got.Fingerprint, first.Fingerprint)
	}
	// A file with the same size and time is not read.
	const name = "runtime/coro.go"
	info, err := os.Stat(path(name))
	if err != nil {
		t.Fatal(err)
	}
	text := must(t, tc, name)
	change := func(at time.Time) {
		t.Helper()
		text[len("// ")]++ // in the comment that the file begins with
		write(t, path(name), string(text))
		if err := os.Chtimes(path(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	change(info.ModTime())
	if got := made(t, copied, cache); got.Fingerprint != first.Fingerprint || len(got.Replaced) != len(first.Replaced) {
		t.Error("the sources were read again")
	}
	change(info.ModTime().Add(time.Second))
	changed := made(t, copied, cache)
	if changed.Fingerprint == first.Fingerprint {
		t.Error("the sources were not read again after a change")
	}
	if got := made(t, copied, cache); got.Fingerprint != changed.Fingerprint || got.File != changed.File {
		t.Error("the overlay is another one")
	}
	// What is not valid is ignored, and what is old is removed.
	old := write(t, filepath.Join(cache, knownPrefix+"old.json"), "{}")
	long := time.Now().Add(-2 * keep)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	write(t, knownFile(copied, cache), "{")
	if got := made(t, copied, cache); got.Fingerprint != changed.Fingerprint {
		t.Errorf("fingerprint %s, expected %s", got.Fingerprint, changed.Fingerprint)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("an old file remains")
	}
}
