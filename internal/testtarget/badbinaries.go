package testtarget

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"syscall"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// badSources has the sources of programs that are not Go's.
//
//go:embed testdata/bad
var badSources embed.FS

// A badKind is one way not to be an executable that Loupe can observe.
type badKind struct {
	// runs is set for what can be started with Start on linux/amd64, keeps to
	// the protocol up to `ready`, and ends with its input.
	runs bool
	// rare is set for what takes long to build: it is left out unless LOUPE_RELEASES chooses all releases.
	rare bool
	// tool is the command that make needs, and debian the package it is in;
	// empty when the Go toolchain suffices.
	tool, debian string
	// make returns the path of the file, which is dir/name unless it is cached.
	make func(dir, name string) (string, error)
}

// badKinds has every kind by name.
var badKinds = map[string]badKind{
	// No executables at all.
	"empty":            {make: withContent("")},
	"script":           {runs: true, make: withContent("#!/bin/sh\necho \"ready $$\"\nexec cat\n")},
	"text":             {make: withContent("\x7fELF is how executables begin\n")},
	"directory":        {make: func(dir, name string) (string, error) { return made(dir, name, makeDir) }},
	"fifo":             {make: func(dir, name string) (string, error) { return made(dir, name, makeFIFO) }},
	"dangling-symlink": {make: func(dir, name string) (string, error) { return made(dir, name, makeDangling) }},

	// Programs that are not Go's, or not of the Go toolchain.
	"c":       {runs: true, tool: "gcc", debian: "gcc", make: compileC("plain.c")},
	"c-strip": {runs: true, tool: "gcc", debian: "gcc", make: compileC("plain.c", "-s", "-static")},
	"gccgo":   {runs: true, rare: true, tool: "gccgo-12", debian: "gccgo-12", make: compileGccgo},
	"tinygo":  {runs: true, tool: "gcc", debian: "gcc", make: compileC("tinygo.c", "-static", "-fno-pie", "-no-pie")},

	// Go, but for another machine or system, or not a program.
	"go-386":      {runs: true, rare: true, make: crossBuild("linux", "386")},
	"go-arm64":    {make: crossBuild("linux", "arm64")},
	"go-s390x":    {rare: true, make: crossBuild("linux", "s390x")}, // 64 bits, big-endian
	"go-darwin":   {rare: true, make: crossBuild("darwin", "arm64")},
	"go-windows":  {rare: true, make: crossBuild("windows", "amd64")},
	"go-c-shared": {tool: "gcc", debian: "gcc", make: buildMode("c-shared")},
	"go-plugin":   {rare: true, tool: "gcc", debian: "gcc", make: buildMode("plugin")},

	// Go programs that were damaged; see damage.go.
	"cut-at-16":           {make: damaged(cutAt(16))},
	"cut-at-64":           {make: damaged(cutAt(64))},
	"cut-at-4096":         {make: damaged(cutAt(4096))},
	"cut-in-text":         {make: damaged(cutInside(".text"))},
	"cut-in-pclntab":      {make: damaged(cutInside(pclntabSection))},
	"cut-in-dwarf":        {make: damaged(cutInside(".debug_info", ".zdebug_info"))},
	"cut-last-byte":       {make: damaged(cutLastByte)},
	"sparse-2g":           {make: damaged(growSparse(2 << 30))}, // more than to be read whole, less than the machine has
	"bad-section-table":   {make: damaged(badSectionTable)},
	"bad-section-count":   {make: damaged(badSectionCount)},
	"bad-section-names":   {make: damaged(badSectionNames)},
	"bad-section-sizes":   {make: damaged(badSectionSizes)},
	"bad-program-headers": {make: damaged(badProgramHeaders)},
	"noise-pclntab":       {make: damaged(noiseIn(pclntabSection))},
	"zero-pclntab":        {make: damaged(zeroIn(pclntabSection))},
	"noise-buildinfo":     {runs: true, make: damaged(noiseIn(".go.buildinfo"))},
	"noise-dwarf":         {runs: true, make: damaged(noiseIn(".debug_info", ".zdebug_info", ".debug_abbrev", ".zdebug_abbrev", ".debug_line", ".zdebug_line"))},
	"noise-symbols":       {runs: true, make: damaged(noiseIn(".symtab", ".strtab"))},
	"noise-everywhere":    {make: damaged(noiseEverywhere)},
}

// BadBinaries returns files that Loupe is given as executables and has to
// refuse, or for some of the damaged ones at least to survive, by name. What the
// machine lacks a tool for is left out and logged; BadBinaryNames has all names.
// The files must not be written to.
func BadBinaries(tb testing.TB) map[string]string {
	tb.Helper()
	return makeBad(tb, func(badKind) bool { return true })
}

// RunnableBadBinaries returns those of BadBinaries that can be started with
// Start on linux/amd64 and live until they are stopped. They answer no command.
// Those that the kernel does not execute, as it does not execute 32-bit programs
// without CONFIG_IA32_EMULATION, are left out and logged.
func RunnableBadBinaries(tb testing.TB) map[string]string {
	tb.Helper()
	paths := makeBad(tb, func(k badKind) bool { return k.runs })
	for name, path := range paths {
		cmd := testcmd.Command(tb, path)
		if err := cmd.Start(); errors.Is(err, syscall.ENOEXEC) {
			tb.Logf("testtarget: no bad binary %q: %v", name, err)
			delete(paths, name)
		} else if err == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	return paths
}

// BadBinaryNames returns every name that BadBinaries can return, sorted.
func BadBinaryNames() []string {
	var names []string
	for name := range badKinds {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// makeBad makes the wanted kinds of files.
func makeBad(tb testing.TB, wanted func(badKind) bool) map[string]string {
	tb.Helper()
	dir := tb.TempDir()
	paths := make(map[string]string)
	for _, name := range BadBinaryNames() {
		kind := badKinds[name]
		if !wanted(kind) {
			continue
		}
		if kind.rare && !Complete() {
			tb.Logf(LeftOut+"bad binary %q", name)
			continue
		}
		if kind.tool != "" {
			if _, err := exec.LookPath(kind.tool); err != nil {
				tb.Logf("testtarget: no bad binary %q: it needs %s (Debian package %s)", name, kind.tool, kind.debian)
				continue
			}
		}
		path, err := kind.make(dir, name)
		if err != nil {
			tb.Fatalf("testtarget: bad binary %q: %v", name, err)
		}
		paths[name] = path
	}
	return paths
}

// made makes a file that is not a regular one.
func made(dir, name string, make func(path string) error) (string, error) {
	path := filepath.Join(dir, name)
	return path, make(path)
}

func makeDir(path string) error { return os.Mkdir(path, 0o777) }

func makeFIFO(path string) error { return syscall.Mkfifo(path, 0o777) }

func makeDangling(path string) error { return os.Symlink("nowhere", path) }

// withContent makes an executable file with a content.
func withContent(content string) func(dir, name string) (string, error) {
	return func(dir, name string) (string, error) {
		path := filepath.Join(dir, name)
		return path, os.WriteFile(path, []byte(content), 0o777)
	}
}

// compileC compiles a file of testdata/bad with gcc.
func compileC(source string, flags ...string) func(dir, name string) (string, error) {
	return func(dir, name string) (string, error) {
		code, err := badSources.ReadFile("testdata/bad/" + source)
		if err != nil {
			return "", err
		}
		input, output := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
		if err := os.WriteFile(input, code, 0o666); err != nil {
			return "", err
		}
		return output, runTool(dir, os.Environ(), "gcc", append(flags, "-O1", "-o", output, input)...)
	}
}

// compileGccgo compiles the program tiny with GCC's Go compiler.
func compileGccgo(dir, name string) (string, error) {
	files, err := programFiles("tiny")
	if err != nil {
		return "", err
	}
	sources := filepath.Join(dir, name+"-src")
	if err := writeFiles(sources, files); err != nil {
		return "", err
	}
	args := []string{"-g", "-o", filepath.Join(dir, name)}
	for file := range files {
		args = append(args, file)
	}
	return filepath.Join(dir, name), runTool(sources, os.Environ(), "gccgo-12", args...)
}

// crossBuild builds a small program for another system.
func crossBuild(goos, goarch string) func(dir, name string) (string, error) {
	return func(dir, name string) (string, error) {
		files := map[string][]byte{"go.mod": []byte("module loupe.test/plain\n\ngo " + Minor(Latest()) + "\n")}
		for _, file := range []string{"plain_linux.go", "plain_other.go"} {
			content, err := badSources.ReadFile("testdata/bad/" + file)
			if err != nil {
				return "", err
			}
			files[file] = content
		}
		return buildBad(name, "plain", files, []string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0"})
	}
}

// buildMode builds the program tiny as something that is not a program.
func buildMode(mode string) func(dir, name string) (string, error) {
	return func(dir, name string) (string, error) {
		files, err := Spec{Program: "tiny"}.withDefaults().sources()
		if err != nil {
			return "", err
		}
		return buildBad(name, "tiny", files, []string{"GOOS=linux", "GOARCH=" + runtime.GOARCH, "CGO_ENABLED=1"}, "-buildmode="+mode)
	}
}

// buildBad builds a program with the newest release.
func buildBad(name, program string, files map[string][]byte, env []string, flags ...string) (string, error) {
	return goBuild{
		name:   fmt.Sprintf("bad-%s-go%s", name, Latest()),
		output: program,
		files:  files,
		args:   append([]string{"build", "-buildvcs=false"}, flags...),
		env:    append([]string{"GOTOOLCHAIN=go" + Latest()}, env...),
	}.run()
}
