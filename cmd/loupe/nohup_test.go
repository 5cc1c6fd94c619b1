package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// nohup is the beginning of a command that starts another one as nohup does.
var nohup = []string{"-c", `trap "" HUP; exec "$0" "$@"`}

// TestNohup sends SIGHUP to a Loupe that was started to ignore it, as with nohup: it goes on recording until Ctrl-C.
func TestNohup(t *testing.T) {
	sample := fmt.Sprint(startSample(t))
	file := filepath.Join(t.TempDir(), "app.trace")
	cmd := testcmd.Command(t, "sh", append(nohup, loupe, "record", "-o", file, "--kinds", "all", sample)...)
	cmd.Stderr = nil
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() { // it has attached
		t.Fatal(lines.Err())
	}
	for range 3 {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if !runs(cmd.Process.Pid) {
		t.Error("SIGHUP has ended it")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, rest.String())
	}
	if status, out, errOut := run(t, "tracefile", "validate", file); status != 0 {
		t.Errorf("the recording is not valid: %s%s", out, errOut)
	}
}

// TestNohupProgram has Loupe start a program: what Loupe ignores the program ignores too.
func TestNohupProgram(t *testing.T) {
	// Bit 0 stands for SIGHUP. The program prints its last line after the given number of tenths of a second. In the second case, Loupe
	// ends it within a minute.
	const script = `set -- $(grep SigIgn /proc/self/status); echo "ignored $(( 0x$2 & 1 ))" >"$0"; kill -HUP $PPID; n=0; while [ $n -lt %d ]; do sleep 0.1; n=$((n + 1)); done; echo went on >>"$0"`
	file := filepath.Join(t.TempDir(), "status")
	for name, test := range map[string]struct {
		args   []string
		tenths int
		status int
		want   string
	}{
		"nohup":    {append(nohup, loupe), 10, 1, "ignored 1\nwent on\n"},
		"terminal": {[]string{"-c", `exec "$0" "$@"`, loupe}, 600, 128 + int(syscall.SIGHUP), "ignored 0\n"},
	} {
		// The shell is no Go program; Loupe looks at it only after it has ended.
		cmd := testcmd.Command(t, "sh", append(test.args, "goroutines", "--after", "1h", "--", "sh", "-c", fmt.Sprintf(script, test.tenths), file)...)
		status, _, errOut := testcmd.Run(t, cmd)
		got, err := os.ReadFile(file)
		if err != nil || string(got) != test.want || status != test.status {
			t.Errorf("%s: status %d, %v, the program says %q, want %d %q; stderr %q", name, status, err, got, test.status, test.want, errOut)
		}
	}
}
