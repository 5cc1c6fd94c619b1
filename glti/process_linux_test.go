package glti

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSymbolsOfPrograms builds programs with and without a symbol table, and at an address that the kernel chooses. Test binaries
// have no symbol table.
func TestSymbolsOfPrograms(t *testing.T) {
	builds := map[string][]string{"symbols": nil, "stripped": {"-ldflags=-s"}}
	if os.Getenv("LOUPE_RELEASES") != "few" { // the go command compiles the standard library once more
		builds["position-independent"] = []string{"-buildmode=pie"}
		builds["both"] = []string{"-buildmode=pie", "-ldflags=-s"}
	}
	for name, flags := range builds {
		name, flags := name, flags
		t.Run(name, func(t *testing.T) {
			exe := filepath.Join(t.TempDir(), "symbols")
			build := exec.Command("go", append(append([]string{"build", "-o", exe}, flags...), "./testdata/symbols")...)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", build, err, out)
			}
			var args []string
			if strings.Contains(strings.Join(flags, " "), "-s") {
				args = append(args, "stripped")
			}
			if out, err := exec.Command(exe, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
