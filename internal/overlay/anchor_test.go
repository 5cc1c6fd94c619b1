package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// supported returns the releases that have patches of those that LOUPE_RELEASES chooses, oldest first.
func supported() []string {
	return slices.DeleteFunc(testtarget.Versions(), func(r string) bool {
		_, err := minorOf("go" + r)
		return err != nil
	})
}

// built returns the releases that programs are built with: with the flag -overlay.matrix those of supported, otherwise the oldest and the newest
// of all releases, or with few releases the newest alone. The first build with a release compiles the standard library.
func built(t *testing.T) []string {
	t.Helper()
	list := supported()
	if testtarget.Complete() && !*matrix {
		t.Logf("built with the oldest and the newest release; make overlay-matrix builds with all of them")
		return []string{list[0], list[len(list)-1]}
	}
	return testtarget.Last(t, list)
}

// toolchain returns the toolchain of a release, which it also sets for the commands of the test.
func toolchain(t *testing.T, release string) Toolchain {
	t.Helper()
	t.Setenv("GOTOOLCHAIN", "go"+release)
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	tc, err := Find(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if tc.Version != "go"+release {
		t.Fatalf("the toolchain is %s, expected go%s", tc.Version, release)
	}
	return tc
}

// TestAnchors applies the patches to the runtime of each release, without compiling it.
func TestAnchors(t *testing.T) {
	for _, release := range supported() {
		t.Run(release, func(t *testing.T) {
			tc := toolchain(t, release)
			files, mark, err := patched(tc, patchFiles)
			if err != nil {
				t.Fatal(err)
			}
			if len(mark) != fingerprintLength {
				t.Errorf("fingerprint %q", mark)
			}
			for name, text := range files {
				checkLines(t, tc, name, string(text))
			}
		})
	}
}

// checkLines fails the test if a line of the original file has another number in the patched one.
func checkLines(t *testing.T, tc Toolchain, name, patched string) {
	t.Helper()
	stock, err := os.ReadFile(filepath.Join(tc.Root, "src", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	want, got := strings.Split(string(stock), "\n"), strings.Split(patched, "\n")
	changed := 0
	for i, line := range want[:len(want)-1] {
		if i >= len(got) || got[i] == line {
			continue
		}
		changed++
		if !contains(got[i], line) {
			t.Errorf("%s:%d is %q, expected what is in %q", name, i+1, got[i], line)
		}
	}
	if changed == 0 && len(got) == len(want) {
		t.Errorf("%s is unchanged", name)
	}
}

// contains reports whether a line is another one with insertions.
func contains(line, original string) bool {
	for _, word := range strings.Fields(original) {
		_, rest, ok := strings.Cut(line, word)
		if !ok {
			return false
		}
		line = rest
	}
	return true
}
