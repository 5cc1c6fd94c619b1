package goproc_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// waiting is a program with five goroutines.
const waiting = `package main

import "os"

func wait() { select {} }

func main() {
	for i := 0; i < 4; i++ {
		go wait()
	}
	os.Stdout.WriteString("ready\n")
	os.Stdin.Read(make([]byte, 1))
}
`

// replace is a program for -toolexec, as tools use it that instrument programs when they are built: it has the compiler read another file
// instead of one of package runtime.
const replace = `#!/bin/sh
tool="$1"
shift
case "$*" in
*-V=full*)
	"$tool" "$@" | sed "s/\$/ with FIELD/"
	exit
	;;
esac
case "$tool: $* " in
*compile:*" -p runtime "*)
	n=$#
	while [ $n -gt 0 ]; do
		arg="$1"
		shift
		case "$arg" in */runtime/runtime2.go) arg="FILE" ;; esac
		set -- "$@" "$arg"
		n=$((n - 1))
	done
	;;
esac
exec "$tool" "$@"
`

// buildWithField builds the program with a field in runtime.g, before the first line that begins with a text.
func buildWithField(t *testing.T, before string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	env := append(os.Environ(), "GOTOOLCHAIN=go"+testtarget.Latest(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	root := testcmd.Command(t, "go", "env", "GOROOT")
	root.Env = env
	status, goroot, errors := testcmd.Run(t, root)
	if status != 0 {
		t.Fatal(errors)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(goroot), "src/runtime/runtime2.go"))
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(source), "\ntype g struct {\n")
	above, below, ok := strings.Cut(body, "\n"+before)
	if !ok {
		t.Fatalf("runtime.g has no %q", before)
	}
	file := filepath.Join(dir, "runtime2.go")
	for name, text := range map[string]string{
		"main.go": waiting, "go.mod": "module loupe.test/waiting\n\ngo 1.24\n",
		"runtime2.go": head + "\ntype g struct {\n" + above + "\n\totel_trace_context interface{}\n" + before + below,
		"tool":        strings.NewReplacer("FILE", file, "FIELD", fmt.Sprintf("a field before %q", strings.TrimSpace(before))).Replace(replace),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "waiting")
	build := testcmd.Command(t, "go", append([]string{"build", "-toolexec=" + filepath.Join(dir, "tool"), "-o", path}, append(flags, "main.go")...)...)
	build.Dir, build.Env = dir, env
	if status, _, errors := testcmd.Run(t, build); status != 0 {
		t.Fatal(errors)
	}
	return path
}

// TestFields has programs whose runtime.g has a field more than that of the release, as after instrumentation at build time. Such fields
// follow all others. A field before others is known from DWARF; without it, the layout is refused.
func TestFields(t *testing.T) {
	testtarget.Whole(t, "a standard library with another runtime.g")
	for _, c := range []struct {
		name, before string
		stripped     bool
		want         error
	}{
		{"end", "}\n", true, nil}, {"end with DWARF", "}\n", false, nil},
		{"middle", "\tgoid ", true, goproc.ErrLayout}, {"middle with DWARF", "\tgoid ", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var flags []string
			if c.stripped {
				flags = append(flags, "-ldflags=-s -w")
			}
			target := testcmd.Within(t, 0, buildWithField(t, c.before, flags...))
			in, err := target.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := target.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := target.Start(); err != nil {
				t.Fatal(err)
			}
			defer target.Wait()
			defer in.Close()
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("%q, %v", line, err)
			}
			p, err := goproc.Open(target.Process.Pid, goproc.Options{})
			if c.want != nil {
				oneLine(t, err, c.want)
				if err == nil {
					p.Close()
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			waiting := 0
			for _, g := range take(t, p, goproc.SnapshotOptions{}).Goroutines {
				for _, f := range g.Stack {
					if f.Func == "main.wait" && g.CreatedBy.Func == "main.main" {
						waiting++
					}
				}
			}
			if waiting != 4 {
				t.Errorf("%d goroutines in main.wait that main.main created, want 4", waiting)
			}
		})
	}
}
