package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestSilentInput has the verbs of tracefile read a pipe, by its name and as stdin, whose writer does not write, writes a part
// of a trace, or is missing. The first Ctrl-C ends them.
func TestSilentInput(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.trace")
	if status, _, stderr := run(t, "record", "-o", whole, "--duration", "1s", "--", loupe, "demo-program"); status != 0 {
		t.Fatal(stderr)
	}
	head, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	head = head[:len(head)/2]
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"stat -", "validate -", "text -", "convert - -o out --format csv", "filter - -o out --from 0s", "wire -",
		"stat fifo", "merge fifo fifo -o out --format perfetto", "stat missing", "merge missing missing -o out --format perfetto",
	} {
		part := head
		if args == "wire -" {
			part = []byte("Trace Go1.26\n")
		}
		for _, begin := range [][]byte{nil, part} {
			list := strings.Fields("tracefile " + args)
			writers := 1
			for i, arg := range list {
				switch arg {
				case "fifo":
					list[i] = fifo
				case "missing":
					list[i], writers = fifo, 0
				case "out":
					list[i] = filepath.Join(dir, "out")
				}
			}
			cmd := testcmd.Command(t, loupe, list...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var w io.WriteCloser = stdin
			if strings.Contains(args, "fifo") && writers > 0 {
				if w, err = os.OpenFile(fifo, os.O_WRONLY, 0); err != nil {
					t.Fatal(err)
				}
			}
			go w.Write(begin) // it may block
			awaitIdle(t, cmd.Process.Pid)
			cmd.Process.Signal(syscall.SIGINT)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				cmd.Wait()
			}()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Errorf("%s: Ctrl-C does not end it", args)
				cmd.Process.Kill()
				<-ended
			}
			w.Close()
			if status := cmd.ProcessState.ExitCode(); status != 1 || stderr.String() != "loupe: interrupted\n" {
				t.Errorf("%s with %d bytes: status %d, stderr %q", args, len(begin), status, stderr.String())
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v is there, %v", left, err)
	}
}

// awaitIdle waits until no thread of a process has run or wanted to for 200 ms. Then a command that has just been started
// waits for its input, and has set up what signals do.
func awaitIdle(t *testing.T, pid int) {
	t.Helper()
	for idle, deadline := 0, time.Now().Add(patience); idle < 5; time.Sleep(40 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not wait for its input")
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		idle++
		for _, name := range threads {
			if stat, err := os.ReadFile(name); err == nil && !bytes.Contains(stat, []byte(") S ")) {
				idle = 0
			}
		}
	}
}
