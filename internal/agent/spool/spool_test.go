package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testmount"
)

// Two targets.
var (
	host = metric.Identity{PID: 12, Process: "batch"}
	pod  = metric.Identity{PID: 4711, Process: "shop", Namespace: "prod", Pod: "shop-7f-x2"}
)

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestFiles requires that the oldest files are removed, also those of an earlier run, and no foreign ones.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "profiles")
	f, err := Open("profile", ".pb.gz", dir, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := f.Write(t.Context(), f.Name(&host, "cpu"), bytes.Repeat([]byte{byte(i)}, 300)); err != nil {
			t.Fatal(err)
		}
	}
	list := names(t, dir)
	if len(list) != 3 || !strings.HasSuffix(list[0], "-3.pb.gz") || !strings.HasPrefix(list[0], "batch-12-cpu-") {
		t.Fatalf("%q", list)
	}
	if info, err := os.Stat(filepath.Join(dir, list[0])); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	// An earlier run was killed while it wrote, and its clock was ahead of time.
	partial := list[0] + ".partial-77"
	foreign := []string{"notes.txt", "mine.pb.gz", "batch-12-cpu-20261127T090000Z-1.pb.gz.bak"}
	for _, name := range append(foreign, partial) {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 2000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range list {
		at := time.Now().Add(time.Duration(i+1) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if f, err = Open("profile", ".pb.gz", dir, 1000); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), f.Name(&pod, "heap"), make([]byte, 500)); err != nil {
		t.Fatal(err)
	}
	left := names(t, dir)
	for _, name := range append(foreign, list[2]) {
		if !slices.Contains(left, name) {
			t.Errorf("%s was removed", name)
		}
	}
	if slices.Contains(left, partial) || slices.Contains(left, list[0]) || slices.Contains(left, list[1]) || len(left) != 5 {
		t.Errorf("%q are left", left)
	}
	if err := f.Write(t.Context(), f.Name(&pod, "heap"), make([]byte, 1001)); err == nil || len(names(t, dir)) != 5 {
		t.Errorf("a profile that is too large: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), f.Name(&pod, "heap"), nil); err == nil {
		t.Error("the directory was removed")
	}
}

// TestFileNames requires names that no target can lead out of the directory with.
func TestFileNames(t *testing.T) {
	f, err := Open("profile", ".pb.gz", t.TempDir(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	for want, id := range map[string]metric.Identity{
		"unknown-0-cpu-20261127T090000Z-1":                    {},
		"prod_shop-7f-x2_shop-4711-cpu-20261127T090000Z-1":    pod,
		"_._..___etc_passwd-1-cpu-20261127T090000Z-1":         {PID: 1, Process: "../../\x00/etc/passwd"},
		"_hidden_a_b__-1-cpu-20261127T090000Z-1":              {PID: 1, Process: ".hidden\na\tbä"},
		strings.Repeat("n", 60) + "-1-cpu-20261127T090000Z-1": {PID: 1, Process: strings.Repeat("n", 5000)},
	} {
		got := fileName(&id, "cpu", at, 1)
		if got != want || !f.ours.MatchString(got+f.ext) || !filepath.IsLocal(got) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for kind, want := range map[string]string{"../x": "x", "": "file", "CPU1": "file", strings.Repeat("k", 99): strings.Repeat("k", 20)} {
		if got := fileName(&host, kind, at, 2); got != fmt.Sprintf("batch-12-%s-20261127T090000Z-2", want) {
			t.Errorf("kind %q: %s", kind, got)
		}
	}
}

// TestDiskFull fills a small file system.
func TestDiskFull(t *testing.T) {
	dir := testmount.New(t, "tmpfs", "size=16k")
	f, err := Open("profile", ".pb.gz", dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), f.Name(&host, "cpu"), make([]byte, 8<<10)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := f.Write(t.Context(), f.Name(&host, "cpu"), make([]byte, 12<<10)); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("a full disk: %v", err)
		}
	}
	if err := f.Write(t.Context(), f.Name(&host, "cpu"), make([]byte, 4<<10)); err != nil || len(names(t, dir)) != 2 {
		t.Errorf("a smaller profile: %v, %q", err, names(t, dir))
	}
}
