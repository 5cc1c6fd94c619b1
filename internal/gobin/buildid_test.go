package gobin_test

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestBuildID compares the build IDs of real programs with what the go command prints.
func TestBuildID(t *testing.T) {
	for _, spec := range testtarget.Some(t, testtarget.Builds(t, "tiny"), 4) {
		path := testtarget.Build(t, spec)
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // one is a pipe
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out, err := testcmd.Combined(testcmd.Command(t, "go", "tool", "buildid", path))
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		want := strings.TrimSpace(string(out))
		if got, err := gobin.BuildID(f); err != nil || got != want || want == "" {
			t.Errorf("%v: %q, %v; want %q", spec, got, err, want)
		}
	}
	for name, path := range testtarget.BadBinaries(t) {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // one is a pipe
		if err != nil {
			continue // a link to nowhere
		}
		defer f.Close()
		if id, err := gobin.BuildID(f); err != nil && id != "" {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
}

func FuzzBuildID(f *testing.F) {
	if b, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(b)
	}
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, _ := gobin.BuildID(bytes.NewReader(b)); len(id) > 256 {
			t.Errorf("%d bytes", len(id))
		}
	})
}
