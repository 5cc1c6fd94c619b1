package export

import (
	"strings"
	"testing"
)

// TestFormats checks what the commands derive from the table.
func TestFormats(t *testing.T) {
	all := Formats()
	for i := range all {
		f := &all[i]
		if found, err := all.Find(f.Name); err != nil || found.Doc != f.Doc {
			t.Errorf("%s: %v, %v", f.Name, found, err)
		}
		if f.Commands == 0 || !strings.Contains(all.Help(), "\n  "+f.Name+" ") {
			t.Errorf("%s: commands %b, help\n%s", f.Name, f.Commands, all.Help())
		}
		if view := f.View("my file"); strings.Contains(view, "%s") || strings.Contains(f.Viewer, "%s") != strings.Contains(view, "my file") {
			t.Errorf("%s: view with %q", f.Name, view)
		}
	}
	for line := range strings.Lines(all.Help()) {
		if len(line) > 81 {
			t.Errorf("the help has a long line: %s", line)
		}
	}
	if _, err := all.For(Merge).Find("svg"); err == nil || err.Error() != `unknown format "svg": must be one of go, text, perfetto, chrome` {
		t.Error(err)
	}
	if names := strings.Join(all.Timelines().Names(), " "); names != "perfetto chrome" {
		t.Error(names)
	}
}
