package loupe_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testmount"
)

// tool is another tracer's command.
type tool struct {
	cmd   *exec.Cmd
	out   *lines
	ended chan struct{}
}

func start(t *testing.T, cmd *exec.Cmd) *tool {
	t.Helper()
	by := &tool{cmd, &lines{}, make(chan struct{})}
	cmd.Stdout, cmd.Stderr = by.out, by.out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(by.ended)
		cmd.Wait()
	}()
	return by
}

// ready waits until the tool has said that it is ready.
func (by *tool) ready(t *testing.T) *tool {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(by.out.String(), "ready"); time.Sleep(20 * time.Millisecond) {
		select {
		case <-by.ended:
			t.Fatalf("%s: %v\n%s", by.cmd.Path, by.cmd.ProcessState, by.out)
		default:
		}
		if time.Now().After(deadline) {
			by.cmd.Process.Kill()
			t.Fatalf("%s is not ready:\n%s", by.cmd.Path, by.out)
		}
	}
	return by
}

// stop ends the tool, which was there until now.
func (by *tool) stop(t *testing.T) {
	t.Helper()
	select {
	case <-by.ended:
		t.Errorf("%s ended too early: %v\n%s", by.cmd.Path, by.cmd.ProcessState, by.out)
	default:
	}
	by.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-by.ended:
	case <-time.After(2 * time.Minute):
		by.cmd.Process.Kill()
		t.Errorf("%s does not end:\n%s", by.cmd.Path, by.out)
	}
}

func bpftrace(t *testing.T, p *shared, at []breakpoint) func() {
	t.Helper()
	var program strings.Builder
	for _, pt := range at {
		fmt.Fprintf(&program, "uprobe:%s:%q { @[probe] = count(); }\n", p.Path(), pt.function)
	}
	program.WriteString("interval:ms:200 { printf(\"ready\\n\"); }\n")
	by := start(t, testcmd.Command(t, "bpftrace", "-p", strconv.Itoa(p.PID()), "-e", program.String())).ready(t)
	return func() { by.stop(t) }
}

func perf(t *testing.T, p *shared, at []breakpoint) func() {
	t.Helper()
	mountTraceFS(t)
	// perf refuses a name that an event of any group has, as in a test of this kind that runs at the same time.
	group := fmt.Sprintf("loupe_%d_%d", os.Getpid(), perfGroups.Add(1))
	add := []string{"probe", "-x", p.Path()}
	args := []string{"record", "-o", filepath.Join(t.TempDir(), "perf.data"), "-c", "1000", "-p", strconv.Itoa(p.PID()), "-e", group + ":*", "--control", "fd:3,4"}
	for i, pt := range at {
		add = append(add, "--add", fmt.Sprintf("%s:%s_%d=%s+%d", group, group, i, pt.function, pt.offset))
	}
	remove := sync.OnceFunc(func() {
		if out, err := testcmd.Combined(testcmd.Command(t, "perf", "probe", "--del", group+":*")); err != nil {
			t.Errorf("perf probe --del: %v: %s", err, out)
		}
	})
	t.Cleanup(remove) // however the test ends: the kernel keeps them for all processes
	if out, err := testcmd.Combined(testcmd.Command(t, "perf", add...)); err != nil {
		t.Fatalf("perf probe --add: %v: %s", err, out)
	}
	var by *tool
	for deadline := time.Now().Add(time.Minute); by == nil; by = record(t, args) {
		if time.Now().After(deadline) {
			t.Fatal("perf record ends again and again")
		}
	}
	if !p.await(t, at, by) {
		t.Fatalf("perf record ended: %v\n%s", by.cmd.ProcessState, by.out)
	}
	return func() {
		by.stop(t)
		remove()
	}
}

// record starts perf record and waits until it records. It returns nil if perf has ended before: it gives up without a word
// when a thread of the program ends after perf has read the list of threads and before perf has opened its events and read
// the thread's name.
func record(t *testing.T, args []string) *tool {
	t.Helper()
	cmd := testcmd.Command(t, "perf", args...)
	read, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{read, write}
	by := start(t, cmd)
	go func() { // not earlier: perf gives up when its commands end
		<-by.ended
		commands.Close()
		answers.Close()
	}()
	read.Close()
	write.Close()
	commands.WriteString("ping\n") // an error means that perf has ended, as does the end of its answers
	answers.SetReadDeadline(time.Now().Add(2 * time.Minute))
	answer, err := bufio.NewReader(answers).ReadString('\n')
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed):
		t.Logf("perf record gave up:\n%s", by.out)
		return nil
	case err != nil || answer != "ack\n":
		cmd.Process.Kill()
		t.Fatalf("perf record answers %q: %v\n%s", answer, err, by.out)
	}
	return by
}

// perfGroups counts the groups of probes that perf has defined. Their names are the kernel's, for all processes.
var perfGroups atomic.Int32

// mountTraceFS provides what perf probe needs.
func mountTraceFS(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(" tracefs ")) {
		return
	}
	testmount.New(t, "tracefs", "")
}

func gdb(t *testing.T, p *shared, at []breakpoint) func() {
	t.Helper()
	args := []string{"-nx", "-q", "-batch", "-iex", "set auto-load no", "-p", strconv.Itoa(p.PID()),
		"-ex", "handle all nostop noprint pass", "-ex", "handle SIGINT stop print nopass"}
	for i, pt := range at {
		args = append(args, "-ex", fmt.Sprintf("break *%#x", pt.addr), "-ex", fmt.Sprintf("ignore %d 1000000000", i+1))
	}
	args = append(args, "-ex", "echo ready\\n", "-ex", "continue", "-ex", "detach")
	by := start(t, testcmd.Command(t, "gdb", args...)).ready(t)
	if !p.await(t, at, by) {
		t.Fatalf("gdb: %v\n%s", by.cmd.ProcessState, by.out)
	}
	return func() { by.stop(t) }
}
