package overlay

import (
	"path/filepath"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestGlti runs those tests of package glti that require the patched runtime.
func TestGlti(t *testing.T) {
	list := modes
	if !*matrix {
		list = modes[:1]
	}
	for _, release := range built(t) {
		for _, m := range list {
			t.Run(release+"/"+m.name, func(t *testing.T) {
				if m.cgo == "1" {
					testtarget.Needs(t, "gcc", "gcc")
				}
				t.Setenv("GOFLAGS", "")
				t.Setenv("GOWORK", "off")
				t.Setenv("CGO_ENABLED", m.cgo)
				args := append([]string{"-vet=off", "-count=1", "-run=TestPatched"}, m.flags...)
				cmd := goCommand(t, release, filepath.Join("..", "..", "glti"), "test", append(args, ".")...)
				if out, err := testcmd.Combined(cmd); err != nil {
					t.Errorf("go test: %v\n%s", err, out)
				}
			})
		}
	}
}
