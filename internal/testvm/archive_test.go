package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// anEntry is one of an archive, as a kernel reads it.
type anEntry struct {
	name, contents string
	mode           uint32
}

func entries(t *testing.T, b []byte) []anEntry {
	t.Helper()
	const head = 110
	var list []anEntry
	for at := 0; ; {
		var f [13]uint32
		if at+head > len(b) || string(b[at:at+6]) != "070701" {
			t.Fatalf("no entry at %d of %d", at, len(b))
		}
		for i := range f {
			if _, err := fmt.Sscanf(string(b[at+6+8*i:at+14+8*i]), "%08x", &f[i]); err != nil {
				t.Fatal(err)
			}
		}
		nameLen, size := int(f[11]), int(f[6])
		name := string(b[at+head : at+head+nameLen-1])
		if b[at+head+nameLen-1] != 0 {
			t.Fatalf("name %q does not end", name)
		}
		if at = (at + head + nameLen + 3) &^ 3; name == "TRAILER!!!" {
			return list
		}
		list = append(list, anEntry{name, string(b[at : at+size]), f[1]})
		at = (at + size + 3) &^ 3
	}
}

// TestArchive reads what was written, with the directories that files need before them and each only once.
func TestArchive(t *testing.T) {
	from := t.TempDir()
	for name, text := range map[string]string{"bin/tool": "program", "share/doc": "text"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("tool", filepath.Join(from, "bin/other")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := newArchive(&b)
	for _, err := range []error{a.file("/etc/passwd", 0o644, []byte("root")), a.tree("/", from, "share"), a.dir("/etc"), a.end()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []anEntry{
		{"etc", "", 0o040755}, {"etc/passwd", "root", 0o100644},
		{"bin", "", 0o040755}, {"bin/other", "tool", 0o120777}, {"bin/tool", "program", 0o100755},
	}
	if got := entries(t, b.Bytes()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
