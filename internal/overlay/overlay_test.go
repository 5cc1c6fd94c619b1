package overlay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// latest returns the newest toolchain as one that is not in the module cache, so that no farm is made for it.
func latest(t *testing.T) Toolchain {
	tc := toolchain(t, testtarget.Latest())
	tc.ModCache = ""
	return tc
}

func made(t *testing.T, tc Toolchain, cache string) *Overlay {
	t.Helper()
	o, err := Make(tc, cache)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReleaseRefused(t *testing.T) {
	t.Setenv("GOTOOLCHAIN", "go1.17.13")
	_, err := Find(t.Context(), t.TempDir())
	want := "cannot patch the runtime of go1.17.13: supported are " + Supported
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Go 1.17: %v, expected %s", err, want)
	}
}

func TestNoGoCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "cannot find the go command in PATH") {
		t.Errorf("without go command: %v", err)
	}
}

// TestMakeTwice checks that an overlay is made once, that a damaged one is made again, and that the same files come out.
func TestMakeTwice(t *testing.T) {
	tc, cache := latest(t), t.TempDir()
	o := made(t, tc, cache)
	file := filepath.Join(filepath.Dir(o.File), "runtime/proc.go")
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || !info.ModTime().Equal(fileTime) {
		t.Errorf("modification time %v, %v, expected %v", info.ModTime(), err, fileTime)
	}
	if strings.Contains(string(first), stampName) || !strings.Contains(string(first), o.Fingerprint) {
		t.Error("the code does not contain the fingerprint")
	}
	write(t, file, "package runtime // damaged")
	again := made(t, tc, cache)
	if second, err := os.ReadFile(file); err != nil || string(second) != string(first) {
		t.Errorf("the damaged file is not the first one again: %v", err)
	}
	if again.File != o.File || again.Fingerprint != o.Fingerprint {
		t.Errorf("the second overlay is %s, the first %s", again.File, o.File)
	}
	entries, err := filepath.Glob(filepath.Join(cache, ".new-*"))
	if err != nil || len(entries) > 0 {
		t.Errorf("remains %v, %v", entries, err)
	}
}

// TestMakeConcurrently makes the same overlay, and the farm, several times at once.
func TestMakeConcurrently(t *testing.T) {
	tc, cache := toolchain(t, testtarget.Latest()), t.TempDir()
	if !tc.cached() {
		t.Errorf("%s is not in the module cache %s", tc.Root, tc.ModCache)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			o, err := Make(tc, cache)
			if err != nil {
				t.Error(err)
			} else if !isIntact(filepath.Dir(o.File)) {
				t.Errorf("%s is not intact", o.File)
			}
		})
	}
	wg.Wait()
}

// TestFingerprint checks that the fingerprint depends on the release and not on the directory of the toolchain.
func TestFingerprint(t *testing.T) {
	tc := latest(t)
	o := made(t, tc, t.TempDir())
	elsewhere := tc
	elsewhere.Root = filepath.Join(t.TempDir(), "go")
	for _, name := range o.Replaced {
		text, err := tc.source(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(elsewhere.Root, "src", name), string(text))
	}
	if got := made(t, elsewhere, t.TempDir()); got.Fingerprint != o.Fingerprint {
		t.Errorf("fingerprint %s in another directory, %s in the toolchain's", got.Fingerprint, o.Fingerprint)
	}
	write(t, filepath.Join(elsewhere.Root, "src/runtime/coro.go"), string(must(t, tc, "runtime/coro.go"))+"\n// changed\n")
	if got := made(t, elsewhere, t.TempDir()); got.Fingerprint == o.Fingerprint {
		t.Error("the fingerprint does not depend on the files that are replaced")
	}
}

func must(t *testing.T, tc Toolchain, name string) []byte {
	t.Helper()
	text, err := tc.source(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestUserOverlay merges the overlay with those of a user.
func TestUserOverlay(t *testing.T) {
	tc, dir := toolchain(t, testtarget.Latest()), t.TempDir()
	o := made(t, tc, t.TempDir())
	merged := func(file string) (string, error) {
		theirs, err := o.user(file, dir)
		if err != nil {
			return "", err
		}
		return o.withFiles(theirs, nil)
	}
	user := func(replace map[string]string) string {
		text, err := marshal(replace)
		if err != nil {
			t.Fatal(err)
		}
		return write(t, filepath.Join(dir, "user.json"), string(text))
	}
	file, err := merged(user(map[string]string{"main.go": "other/main.go", "gone.go": "",
		filepath.Join(tc.Root, "src/fmt/print.go"): "/tmp/print.go"}))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Replace map[string]string }
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &list) != nil {
		t.Fatal(err, string(text))
	}
	for from, want := range map[string]string{
		filepath.Join(dir, "main.go"):             filepath.Join(dir, "other/main.go"),
		filepath.Join(dir, "gone.go"):             "",
		filepath.Join(o.Root, "src/fmt/print.go"): "/tmp/print.go",
		o.original("runtime/proc.go"):             filepath.Join(filepath.Dir(o.File), "runtime/proc.go"),
	} {
		if got, ok := list.Replace[from]; !ok || got != want {
			t.Errorf("%s is replaced by %q, expected %q", from, got, want)
		}
	}
	for _, hostile := range []string{filepath.Join(tc.Root, "src/runtime/proc.go"), filepath.Join(o.Root, "src/runtime/../runtime/proc.go")} {
		for _, to := range []string{"mine.go", ""} {
			_, err := merged(user(map[string]string{hostile: to}))
			if err == nil || !strings.Contains(err.Error(), "which the tool interface patches") {
				t.Errorf("an overlay of %s: %v", hostile, err)
			}
		}
	}
	for _, broken := range []string{"", "{", `{"Replace": 1}`} {
		if _, err := merged(write(t, filepath.Join(dir, "broken.json"), broken)); err == nil {
			t.Errorf("the overlay %q is accepted", broken)
		}
	}
	if _, err := merged("absent.json"); err == nil {
		t.Error("an overlay that does not exist is accepted")
	}
}

// TestOtherDirectory checks that a directory with other files is not written to.
func TestOtherDirectory(t *testing.T) {
	tc, dir := latest(t), t.TempDir()
	write(t, filepath.Join(dir, "mine"), "")
	if _, err := MakeIn(tc, dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("MakeIn of a directory with files: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "new")
	for range 2 {
		if _, err := MakeIn(tc, empty); err != nil {
			t.Error(err)
		}
	}
}
