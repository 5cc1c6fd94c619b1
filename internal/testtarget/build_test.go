package testtarget

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// endReleases returns the releases that these tests build with: the ends of the
// supported range. Tests of other packages go through all of them.
func endReleases(tb testing.TB) []string {
	tb.Helper()
	return Last(tb, []string{Versions()[0], Latest()})
}

// TestBuildShapes looks at executables of every shape.
func TestBuildShapes(t *testing.T) {
	type shape struct {
		elfType elf.Type
		machine elf.Machine
		symbols bool
		dwarf   bool
		dynamic bool
	}
	machine := map[string]elf.Machine{AMD64: elf.EM_X86_64, ARM64: elf.EM_AARCH64}
	here := machine[runtime.GOARCH]
	for _, v := range endReleases(t) {
		for _, test := range []struct {
			spec Spec
			want shape
		}{
			{Spec{}, shape{elf.ET_EXEC, here, true, true, false}},
			{Spec{Stripped: true}, shape{elf.ET_EXEC, here, false, false, false}},
			{Spec{PIE: true}, shape{elf.ET_DYN, here, true, true, true}},
			{Spec{Cgo: true}, shape{elf.ET_EXEC, here, true, true, true}},
			{Spec{Binutils: true}, shape{elf.ET_EXEC, here, false, false, false}},
			{Spec{Arch: ARM64}, shape{elf.ET_EXEC, elf.EM_AARCH64, true, true, false}},
		} {
			test.spec.Program, test.spec.Go = "zoo", v
			t.Run(test.spec.String(), func(t *testing.T) {
				t.Parallel()
				path := Build(t, test.spec)
				if again := Build(t, test.spec); again != path {
					t.Errorf("built %s and then %s", path, again)
				}
				f, err := elf.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				got := shape{
					elfType: f.Type,
					machine: f.Machine,
					symbols: f.Section(".symtab") != nil,
					dwarf:   f.Section(".debug_info") != nil || f.Section(".zdebug_info") != nil,
				}
				for _, p := range f.Progs {
					got.dynamic = got.dynamic || p.Type == elf.PT_INTERP
				}
				if got != test.want {
					t.Errorf("got %+v, want %+v", got, test.want)
				}
			})
		}
	}
}

func TestBuildFails(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want string
	}{
		{Spec{Program: "no such program"}, `there is no program "no such program"`},
		{Spec{Program: "tiny", Go: "latest"}, `"latest" is not a Go release`},
		{Spec{Program: "tiny", Go: "1.12.17", Trimpath: true}, "-trimpath needs Go 1.13"},
		{Spec{Program: "tiny", Arch: "vax"}, "GOARCH=vax"},
	} {
		_, err := build(test.spec.withDefaults())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got the error %v, want one with %q", test.spec, err, test.want)
		}
	}
}

// TestCacheFill has many want the same entry at the same time.
func TestCacheFill(t *testing.T) {
	c := cache{t.TempDir()}
	entry := c.entry("name", "hash")
	broken := errors.New("broken")
	if err := c.fill(entry, func(dir string) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("filling failed with %v, want %v", err, broken)
	}
	var made atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := c.fill(entry, func(dir string) error {
				made.Add(1)
				return os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o666)
			})
			content, readErr := os.ReadFile(filepath.Join(entry, "file"))
			if err != nil || readErr != nil || string(content) != "content" {
				t.Errorf("got %q, %v, %v", content, err, readErr)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("the entry was made %d times", n)
	}
	left, err := filepath.Glob(filepath.Join(c.root, "new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary directories are left: %q, %v", left, err)
	}
}

// TestCachePrune removes what was unused for long and keeps what was used.
func TestCachePrune(t *testing.T) {
	c := cache{t.TempDir()}
	nothing := func(string) error { return nil }
	old, used, now := c.entry("old", "1"), c.entry("used", "1"), c.entry("new", "1")
	for _, entry := range []string{old, used} {
		if err := c.fill(entry, nothing); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-2 * unusedFor)
		if err := os.Chtimes(entry, past, past); err != nil {
			t.Fatal(err)
		}
	}
	for _, entry := range []string{used, now} {
		if err := c.fill(entry, nothing); err != nil {
			t.Fatal(err)
		}
	}
	for entry, want := range map[string]bool{old: false, old + ".lock": false, used: true, used + ".lock": true, now: true} {
		if _, err := os.Stat(entry); (err == nil) != want {
			t.Errorf("%s: %v, want it to exist: %v", filepath.Base(entry), err, want)
		}
	}
}

// TestCleanEnv appends to the environment of two builds, as builds side by side do: neither may see the other's settings.
func TestCleanEnv(t *testing.T) {
	env, err := cleanEnv()
	if err != nil {
		t.Fatal(err)
	}
	one, other := append(env, "GOTOOLCHAIN=one"), append(env, "GOTOOLCHAIN=other")
	if got := one[len(one)-1]; got != "GOTOOLCHAIN=one" {
		t.Errorf("the environment of one build says %s", got)
	}
	if got := other[len(other)-1]; got != "GOTOOLCHAIN=other" {
		t.Errorf("the environment of the other build says %s", got)
	}
}

// TestCrossEntry looks for what a cross compiler has built where a machine of that architecture does for its own.
func TestCrossEntry(t *testing.T) {
	cross, err := Spec{Program: "tiny", Go: "1.22.12", Arch: ARM64, Cgo: true}.goBuild()
	if err != nil {
		t.Fatal(err)
	}
	native, without, c := cross, cross, cache{"/cache"}
	native.compiler, without.compiler = "gcc", ""
	if cross.compiler == "" || cross.entry(c) != native.entry(c) {
		t.Errorf("%q makes %s, gcc %s", cross.compiler, cross.entry(c), native.entry(c))
	}
	if without.entry(c) == native.entry(c) {
		t.Error("with a C compiler it is not another program")
	}
}
