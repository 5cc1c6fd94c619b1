package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// runLoader runs a program with a loader.
func runLoader(t *testing.T, program, loader string, args ...string) (status int, stderr string) {
	t.Helper()
	cmd := testcmd.Command(t, program, args...)
	cmd.Env = append(os.Environ(), "GO_GLTI_LOADER="+loader)
	status, _, stderr = testcmd.Run(t, cmd)
	return status, stderr
}

// TestLoader starts static programs with the sample loader.
func TestLoader(t *testing.T) {
	testtarget.Needs(t, "gcc", "gcc")
	loader := filepath.Join(t.TempDir(), "loader")
	source := filepath.Join("..", "..", "glti", "samples", "loader", "loader.c")
	if out, err := testcmd.Combined(testcmd.Command(t, "gcc", "-Wall", "-Wextra", "-Werror", "-o", loader, source)); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, release := range built(t) {
		t.Run(release, func(t *testing.T) {
			program := buildHost(t, release, true, "0")
			line := func(n int) string { return fmt.Sprintf("loader: %s with %d arguments\n", program, n) }
			for _, test := range []struct {
				args string
				want string
			}{
				{"", line(0) + "main []\n"},
				{"a,b c", line(2) + "main [\"a\" \"b c\"]\n"},
				{"child", line(1) + "main [\"child\"]\n" + line(1) + "main [\"of\"]\n"},
			} {
				var args []string
				if test.args != "" {
					args = strings.Split(test.args, ",")
				}
				if status, stderr := runLoader(t, program, loader, args...); status != 0 || stderr != test.want {
					t.Errorf("%q: status %d\n%sexpected\n%s", args, status, stderr, test.want)
				}
			}
			for bad, want := range map[string]string{
				"/absent/loader":                    "no such file",
				filepath.Join("testdata", "agents"): "permission denied",
				"/opt/$x":                           "unknown $x (there are $v for the Go version, $a for the architecture, $o for the operating system, and $$ for $)",
				notExecutable(t):                    "it is not an executable",
			} {
				want = "glti: loader " + bad + " not started: " + want + "\nmain []\n"
				if status, stderr := runLoader(t, program, bad); status != 0 || stderr != want {
					t.Errorf("status %d\n%sexpected\n%s", status, stderr, want)
				}
			}
		})
	}
	t.Run("ignored", func(t *testing.T) { loaderIgnored(t, loader) })
}

// notExecutable returns a file that may be executed, and is not a program.
func notExecutable(t *testing.T) string {
	t.Helper()
	file := write(t, filepath.Join(t.TempDir(), "text"), "text")
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// loaderIgnored runs the programs that do not use the loader.
func loaderIgnored(t *testing.T, loader string) {
	release := testtarget.Latest()
	programs := map[string]string{
		"-X":         buildHost(t, release, true, "0", "-ldflags=-X=runtime.gltiNoLoader=1"),
		"the tag":    buildHost(t, release, true, "0", "-tags="+NoLoaderTag),
		"dynamic":    buildProgram(t, release, true, "1", "./host"),
		"go's own":   buildHost(t, release, false, "0"),
		"setuid":     setuid(t, buildHost(t, release, true, "0")),
		"no opt-out": buildHost(t, release, true, "0", "-ldflags=-X=main.gltiNoLoader=1"),
	}
	for name, program := range programs {
		if program == "" {
			t.Logf("without root, no program with the rights of another user is made")
			continue
		}
		status, stderr := runLoader(t, program, loader)
		if used := strings.HasPrefix(stderr, "loader: "); status != 0 || !strings.Contains(stderr, "main") || used != (name == "no opt-out") {
			t.Errorf("%s: status %d\n%s", name, status, stderr)
		}
	}
	text, err := os.ReadFile(programs["the tag"])
	if err != nil || strings.Contains(string(text), "GO_GLTI_LOADER") {
		t.Errorf("the program with the tag has the code: %v", err)
	}
}

// setuid returns a program that has the rights of another user, or nothing if this process may not make one.
func setuid(t *testing.T, program string) string {
	t.Helper()
	if os.Getuid() != 0 {
		return ""
	}
	const nobody = 65534
	if err := os.Chown(program, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	return program
}
