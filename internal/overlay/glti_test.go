package overlay

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestGlti runs those tests of package glti that require the patched runtime.
func TestGlti(t *testing.T) {
	builds(t, func(t *testing.T, release string, m mode) {
		args := append([]string{"-vet=off", "-count=1", "-run=TestPatched"}, m.flags...)
		cmd := goCommand(t, release, filepath.Join("..", "..", "glti"), "test", append(args, ".")...)
		if out, err := testcmd.Combined(cmd); err != nil {
			t.Errorf("go test: %v\n%s", err, out)
		}
	})
}

// gltiPrograms are the programs of glti/testdata that use the package in a patched program. They compare what it says with what they know,
// and print ok.
var gltiPrograms = []string{"functions"}

// TestGltiPrograms runs them. The tests of package glti are linked without debug information.
func TestGltiPrograms(t *testing.T) {
	builds(t, func(t *testing.T, release string, m mode) {
		for _, name := range gltiPrograms {
			exe := filepath.Join(t.TempDir(), name)
			cmd := goCommand(t, release, filepath.Join("..", "..", "glti"), "build", append(m.flags[:len(m.flags):len(m.flags)], "-o", exe, "./testdata/"+name)...)
			if out, err := testcmd.Combined(cmd); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			if out, err := testcmd.Combined(testcmd.Command(t, exe)); err != nil || !strings.Contains("\n"+string(out), "\nok") {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	})
}
