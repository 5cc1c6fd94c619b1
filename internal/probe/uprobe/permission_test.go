package uprobe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
)

// TestExplain turns errors of the kernel into reasons. The lockdown is made up: this machine's kernel has none.
func TestExplain(t *testing.T) {
	lockdown := func(text string) string {
		path := filepath.Join(t.TempDir(), "lockdown")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct {
		err      error
		lockdown string
		want     error
		says     string
	}{
		{unix.EPERM, "[none] integrity confidentiality\n", probe.ErrPermission, "not permitted: step: operation not permitted"},
		{unix.EPERM, "none integrity [confidentiality]\n", probe.ErrPermission, "kernel lockdown mode confidentiality"},
		{unix.ESRCH, "", goproc.ErrExited, "has exited"},
		{unix.ENOENT, "", goproc.ErrExited, "has exited"},
		{ebpf.ErrNotSupported, "", probe.ErrUnsupported, "not supported"},
		{unix.ENOMEM, "", unix.ENOMEM, "cannot allocate memory"},
	} {
		e := New(Options{lockdown: lockdown(test.lockdown)})
		e.plan = &probe.Plan{PID: 1}
		got := e.explain(fmt.Errorf("step: %w", test.err))
		if !errors.Is(got, test.want) || !strings.Contains(got.Error(), test.says) {
			t.Errorf("%v with lockdown %q: %v", test.err, test.lockdown, got)
		}
	}
}

// TestFailedProgram finds which program the kernel has refused.
func TestFailedProgram(t *testing.T) {
	for text, want := range map[string]string{
		"program probe_gopark: load program: permission denied: R1 invalid mem access": "probe_gopark",
		"map events: map create: operation not permitted":                              "",
	} {
		if got, _ := failedProgram(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
