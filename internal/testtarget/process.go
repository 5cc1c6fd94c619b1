package testtarget

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/child"
	"github.com/loupe-go/loupe/internal/testcmd"
)

const (
	// answerTime is how long a target may take for an answer; a flood of
	// 100,000 goroutines on a busy machine takes some seconds to start.
	answerTime = 2 * time.Minute
	// quitTime is how long a target may take to end after `quit`.
	quitTime = time.Minute
	// dumpBegin and dumpEnd enclose the answer to `stacks`.
	dumpBegin, dumpEnd = "<<<", ">>>"
)

// A Process is a running test target. Its methods are for the test's goroutine:
// what fails in them fails the test.
type Process struct {
	tb     testing.TB
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	lines  *bufio.Reader
	stderr *head
	ended  chan struct{} // closed when the process was waited for
	err    error         // of the wait; valid once ended is closed
	killed bool
}

// Start runs the executable at path, waits until it says that it is ready, and
// stops it when the test ends. A target that ends by itself with a status
// other than 0 fails the test. A target also ends when the test process does,
// however that ends.
func Start(tb testing.TB, path string, args ...string) *Process {
	tb.Helper()
	return StartCmd(tb, testcmd.Within(tb, 0, path, args...))
}

// StartCmd is Start for a command that the caller prepared, such as one with an
// environment, another user or namespaces. Its standard streams are set here.
func StartCmd(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	wait := func() error {
		child.AwaitEnd(cmd.Process.Pid)
		return cmd.Wait()
	}
	return startBy(tb, cmd, cmd.Start, wait)
}

// StartBy is StartCmd for a command that start starts, and that is waited for elsewhere: its status is not examined.
func StartBy(tb testing.TB, cmd *exec.Cmd, start func() error) *Process {
	tb.Helper()
	return startBy(tb, cmd, start, func() error {
		child.AwaitEnd(cmd.Process.Pid)
		return nil
	})
}

func startBy(tb testing.TB, cmd *exec.Cmd, start, wait func() error) *Process {
	tb.Helper()
	p := &Process{tb: tb, cmd: cmd, stderr: new(head), ended: make(chan struct{})}
	// The pipes are made here rather than by os/exec, so that waiting for the
	// process and reading its last words do not get in each other's way.
	stdin, in, err := os.Pipe()
	if err != nil {
		tb.Fatalf("testtarget: start %s: %v", cmd.Path, err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		in.Close()
		tb.Fatalf("testtarget: start %s: %v", cmd.Path, err)
	}
	p.in, p.out, p.lines = in, out, bufio.NewReader(out)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, p.stderr
	cmd.WaitDelay = 10 * time.Second // to read what it has said, on a busy machine
	err = start()
	stdin.Close()
	stdout.Close()
	if err != nil {
		in.Close()
		out.Close()
		tb.Fatalf("testtarget: start %s: %v", cmd.Path, err)
	}
	go func() {
		p.err = wait()
		close(p.ended)
	}()
	tb.Cleanup(p.Stop)
	if ready := p.line(); ready != fmt.Sprintf("ready %d", p.PID()) {
		// In a PID namespace of its own the target knows itself by another number.
		if !strings.HasPrefix(ready, "ready ") {
			tb.Fatalf("testtarget: %s said %q instead of ready", cmd.Path, ready)
		}
	}
	return p
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Path returns the path of the executable, as it was started.
func (p *Process) Path() string { return p.cmd.Path }

// Running says whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Command sends one line and returns the line that answers it. Use Stacks for
// the command of that name. An answer that is an error fails the test.
func (p *Process) Command(line string) string {
	p.tb.Helper()
	p.send(line)
	answer := p.line()
	if strings.HasPrefix(answer, "error") {
		p.tb.Fatalf("testtarget: %s answered %q with %q", p.cmd.Path, line, answer)
	}
	return answer
}

// Stacks returns the text of runtime.Stack for all goroutines, taken by the
// target's goroutine main.dumper while the main goroutine reads its input, as
// it does whenever the target waits for a command.
func (p *Process) Stacks() string {
	p.tb.Helper()
	p.send("stacks")
	if begin := p.line(); begin != dumpBegin {
		p.tb.Fatalf("testtarget: %s answered stacks with %q", p.cmd.Path, begin)
	}
	var text strings.Builder
	for {
		line := p.line()
		if line == dumpEnd {
			return text.String()
		}
		text.WriteString(line)
		text.WriteByte('\n')
	}
}

// Goroutines returns Stacks, parsed.
func (p *Process) Goroutines() []Goroutine {
	p.tb.Helper()
	gs, err := ParseStacks(p.Stacks())
	if err != nil {
		p.tb.Fatalf("testtarget: stacks of %s: %v", p.cmd.Path, err)
	}
	return gs
}

// Stop asks the target to end and waits for it. The test fails if it does not
// end with status 0. Stopping twice is allowed, as is stopping after Kill.
func (p *Process) Stop() {
	p.tb.Helper()
	p.in.Close() // the end of the input means quit
	select {
	case <-p.ended:
	case <-time.After(quitTime):
		where := p.quit()
		p.tb.Errorf("testtarget: %s (pid %d) did not quit within %v%s\n%s", p.cmd.Path, p.PID(), quitTime, p.stderr, where)
	}
	p.out.Close()
	if p.err != nil && !p.killed {
		p.killed = true // once is enough
		p.tb.Errorf("testtarget: %s (pid %d) failed: %v%s", p.cmd.Path, p.PID(), p.err, p.stderr)
	}
}

// Kill ends the target at once with SIGKILL and waits for it.
func (p *Process) Kill() {
	p.killed = true
	p.cmd.Process.Kill()
	<-p.ended
}

// quit ends a target that does not answer. Its goroutines' stacks are then on
// its standard error. The result says where its threads were, and those of
// this process: that may be what a target waits for, or what waits in the kernel.
func (p *Process) quit() string {
	p.killed = true
	where := testcmd.Where(os.Getpid())
	testcmd.Quit(p.cmd.Process, p.ended)
	return where
}

// send writes one line to the target.
func (p *Process) send(line string) {
	p.tb.Helper()
	if _, err := p.in.WriteString(line + "\n"); err != nil {
		p.fail("send "+line, err)
	}
}

// line reads one line from the target.
func (p *Process) line() string {
	p.tb.Helper()
	if err := p.out.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		p.fail("wait for an answer", err)
	}
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.fail("read an answer", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// fail ends the test with what is known about the target.
func (p *Process) fail(step string, err error) {
	p.tb.Helper()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		// The other end is closed: the status says more than the pipe.
		select {
		case <-p.ended:
			err = fmt.Errorf("it ended: %w", errors.Join(p.err, err))
		case <-time.After(time.Second):
		}
	} else {
		err = fmt.Errorf("%w\n%s", err, p.quit())
	}
	p.tb.Fatalf("testtarget: %s (pid %d): %s: %v%s", p.cmd.Path, p.PID(), step, err, p.stderr)
}

// A head keeps the first part of what a target writes to its standard error,
// which for a crash has the reason.
type head struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *head) Write(b []byte) (int, error) {
	const most = 64 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := most - len(t.text); room > 0 {
		t.text = append(t.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

// String returns the text for the end of a message.
func (t *head) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return ""
	}
	return "\nstderr: " + string(t.text)
}
