package layout

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/probe"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// fromFile is FromDWARF of an executable.
func fromFile(path string) (*Layout, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := DWARFOf(f)
	if !ok {
		return nil, ErrNoDWARF
	}
	return FromDWARF(d)
}

// thisRelease is the release that runs the tests.
func thisRelease(t testing.TB) table.Release {
	t.Helper()
	r, _, err := table.ParseRelease(strings.TrimPrefix(runtime.Version(), "go"))
	if err != nil {
		t.Skipf("%s is no release: %v", runtime.Version(), err)
	}
	return r
}

// buildProbe builds the probe program with the release that runs the tests.
func buildProbe(t testing.TB, arch string, flags ...string) string {
	t.Helper()
	builder, err := probe.NewBuilder(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, err := builder.Build(t.Context(), thisRelease(t), arch, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// compare fails unless a layout holds exactly what debug/dwarf found in the same program.
func compare(t *testing.T, got *Layout, want *table.Snapshot) {
	t.Helper()
	compared := 0
	for name, s := range want.Structs {
		if size, ok := got.Size(name); !ok || size != uint64(s.Size) {
			t.Errorf("%s/%s: %s has %d bytes, want %d", got.GoVersion, got.Arch, name, size, s.Size)
		}
		for field, w := range s.Fields {
			if g, ok := got.Field(name + "." + field); !ok || g != Field(w) {
				t.Errorf("%s/%s: %s.%s is %+v (%v), want %+v", got.GoVersion, got.Arch, name, field, g, ok, w)
			}
			compared++
		}
		if n := len(got.Fields(name)); n != len(s.Fields) {
			t.Errorf("%s/%s: %s has %d fields, want %d", got.GoVersion, got.Arch, name, n, len(s.Fields))
		}
	}
	for name, w := range want.Consts {
		if g, ok := got.Const(name); !ok || g != w {
			t.Errorf("%s/%s: %s = %d (%v), want %d", got.GoVersion, got.Arch, name, g, ok, w)
		}
	}
	if compared < 500 || len(want.Consts) < 70 {
		t.Errorf("%s/%s: only %d fields and %d constants compared", got.GoVersion, got.Arch, compared, len(want.Consts))
	}
}

// TestFromDWARFAgrees compares three readings of programs that real toolchains built: this package's of the DWARF, that
// of debug/dwarf, and the table. The releases stand for the forms that Go's DWARF has had: version 4 in .zdebug sections,
// version 4 in compressed ones since Go 1.19, version 5 since Go 1.25. The generator's -check does the same for all.
func TestFromDWARFAgrees(t *testing.T) {
	ctx := t.Context()
	builder, err := probe.NewBuilder(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	releases := []table.Release{{Minor: 12, Patch: 17}, {Minor: 17, Patch: 13}, {Minor: 24, Patch: 13}, {Minor: 27, Patch: 4}, thisRelease(t)}
	for _, r := range releases {
		arches := probe.Arches
		if r.String() != testtarget.Latest() { // for each the standard library is compiled once more
			arches = append(testtarget.Rare(t, slices.DeleteFunc(slices.Clone(arches), func(a string) bool { return a == runtime.GOARCH })...), runtime.GOARCH)
		}
		for _, arch := range arches {
			path, err := builder.Build(ctx, r, arch)
			if err != nil {
				t.Fatal(err)
			}
			want, err := probe.Extract(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fromFile(path)
			if err != nil {
				t.Fatalf("go%v/%s: %v", r, arch, err)
			}
			if got.Source != SourceDWARF || got.Arch != arch || got.GoVersion != "go"+r.String() {
				t.Errorf("go%v/%s: layout of %s/%s from %v", r, arch, got.GoVersion, got.Arch, got.Source)
			}
			compare(t, got, want)
			known, err := ForVersion("go"+r.String(), arch)
			if err != nil {
				t.Fatal(err)
			}
			if known.Source == SourceTable {
				compare(t, known, want)
			}
		}
	}
}

// TestFromDWARFForms reads programs whose DWARF is stored otherwise, or not at all.
func TestFromDWARFForms(t *testing.T) {
	type form struct {
		flags string
		want  error
	}
	forms := []form{
		{flags: "-ldflags=-compressdwarf=false"},
		{flags: "-gcflags=-dwarflocationlists=false"},
		{flags: "-ldflags=-w", want: ErrNoDWARF},
		{flags: "-ldflags=-s -w", want: ErrNoDWARF},
	}
	forms = append(forms, testtarget.Rare(t, form{flags: "-buildmode=pie"})...)
	for _, test := range forms {
		got, err := fromFile(buildProbe(t, "amd64", test.flags))
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.flags, err, test.want)
		}
		if test.want != nil || err != nil {
			continue
		}
		want, err := ForVersion(runtime.Version(), "amd64")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, got, want.data)
	}
}

// cProgram has C code whose types have the names of the runtime's.
const cProgram = `package main

/*
#include <stdio.h>
typedef struct g { char first; long goid; } g;
typedef struct m { long procid; } m;
static long use(void) { g x = {1, 2}; m y = {3}; printf("%p %p\n", (void*)&x, (void*)&y); return x.goid + y.procid; }
*/
import "C"

func main() { println(C.use()) }
`

// TestFromDWARFWithC reads programs that the system's linker put together from Go's and a C compiler's DWARF.
func TestFromDWARFWithC(t *testing.T) {
	testtarget.Needs(t, "gcc", "gcc")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(cProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	want, err := ForVersion(runtime.Version(), runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	const compress = "-Wl,--compress-debug-sections="
	for _, extld := range append(testtarget.Rare(t, "", compress+"zlib-gnu", compress+"none"), compress+"zlib") {
		cmd := testcmd.Command(t, "go", "build", "-ldflags=-linkmode=external -extldflags="+extld, "-o", "program", "main.go")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=1", "CGO_CFLAGS=-g -gdwarf-5")
		if out, err := testcmd.Combined(cmd); err != nil {
			t.Fatalf("%s: %v\n%s", extld, err, out)
		}
		got, err := fromFile(filepath.Join(dir, "program"))
		if err != nil {
			t.Errorf("%s: %v", extld, err)
			continue
		}
		for _, path := range []string{"runtime.g.goid", "runtime.g.sched.sp", "runtime.m.procid", "runtime.schedt.lock"} {
			g, _ := got.Field(path)
			if w, ok := want.Field(path); !ok || g != w {
				t.Errorf("%s: %s is %+v, want %+v", extld, path, g, w)
			}
		}
	}
}

// TestFromDWARFOfC refuses a program without Go in it.
func TestFromDWARFOfC(t *testing.T) {
	testtarget.Needs(t, "gcc", "gcc")
	dir := t.TempDir()
	source := "typedef struct g { long goid; } g; int main(void) { g x = {0}; return x.goid; }\n"
	if err := os.WriteFile(filepath.Join(dir, "runtime.c"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Command(t, "gcc", "-g", "-o", "program", "runtime.c")
	cmd.Dir = dir
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if l, err := fromFile(filepath.Join(dir, "program")); !errors.Is(err, ErrNoDWARF) {
		t.Errorf("%v, %v; want ErrNoDWARF", l, err)
	}
}
