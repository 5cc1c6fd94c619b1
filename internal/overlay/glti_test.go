package overlay

import (
	"path/filepath"
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
