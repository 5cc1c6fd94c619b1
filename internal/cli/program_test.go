package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
)

func TestProgram(t *testing.T) {
	notGo := newFake()
	notGo.openErr = fmt.Errorf("process 1: %w", loupe.ErrNotGo)
	for _, test := range []struct {
		name   string
		sys    *fakeSystem
		after  string
		argv   []string
		status int
		out    string // of Loupe; empty for none
		errOut string
	}{
		{"ends well", newFake(), "1ms", []string{"sh", "-c", "cat; echo hello"}, exitDone, "main.worker", "hello\n"},
		{"its status is passed on", newFake(), "1ms", []string{"sh", "-c", "cat; exit 7"}, 7, "main.worker", ""},
		{"its signal too", newFake(), "1ms", []string{"sh", "-c", "cat; kill -TERM $$"}, 128 + 15, "main.worker", ""},
		{"its flags are its own", newFake(), "1ms", []string{"sh", "-c", "cat; test $1 = --json", "sh", "--json"}, exitDone, "main.worker", ""},
		{"ends too early", newFake(), "1m", []string{"sh", "-c", "exit 0"}, exitFailed, "", "use a shorter --after"},
		{"ends too early and badly", newFake(), "1m", []string{"sh", "-c", "exit 9"}, 9, "", "use a shorter --after"},
		{"is not there", newFake(), "1ms", []string{"/no/such/program"}, exitUnobservable, "", "cannot start /no/such/program"},
		{"is not Go", notGo, "1ms", []string{"sh", "-c", "cat; echo went on"}, exitUnobservable, "", "went on"},
		{"is not Go and fails", notGo, "1ms", []string{"sh", "-c", "cat; exit 5"}, 5, "", "not a Go program"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := runProgram(t, test.sys, append([]string{"goroutines", "-q", "--after", test.after, "--"}, test.argv...)...)
			if r.status != test.status || !strings.Contains(r.errOut, test.errOut) {
				t.Errorf("status %d, stderr %q", r.status, r.errOut)
			}
			if test.out == "" && r.out != "" || !strings.Contains(r.out, test.out) || strings.Contains(r.out, "hello") {
				t.Errorf("stdout %q", r.out)
			}
		})
	}
}

// runProgram runs a command line that starts a program. When Loupe has reported on the program, runProgram closes the program's stdin.
func runProgram(t *testing.T, sys system, args ...string) result {
	t.Helper()
	stdin, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer w.Close()
	var out, errOut lockedBuffer
	a := &app{Env: Env{Args: args, Stdin: stdin, Stdout: &out, Stderr: &errOut, Getenv: func(string) string { return "" }}, system: sys}
	status := make(chan int, 1)
	go func() { status <- a.run(t.Context()) }()
	for {
		select {
		case s := <-status:
			return result{s, out.String(), errOut.String()}
		case <-time.After(time.Millisecond):
			if strings.Contains(out.String(), "main.worker") || strings.Contains(errOut.String(), "not a Go program") {
				w.Close() // a second time it does nothing
			}
		}
	}
}

func TestPassOn(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	passOn(make(chan os.Signal), self, ended) // returns, without a signal
}
