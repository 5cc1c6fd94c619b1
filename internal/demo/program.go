package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/loupe-go/loupe/internal/child"
)

// Program is the sample program as a child process.
type Program struct {
	cmd   *exec.Cmd
	stdin io.Closer // its end is what the program ends with
	ended chan struct{}
}

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 2 * time.Second
)

// Start starts the sample program and returns when it is at work. path and args make a process that calls Serve. The
// program holds on to its parent by a pipe: it ends when the Program is stopped and also when this process ends, no
// matter how.
func Start(ctx context.Context, path string, args ...string) (*Program, error) {
	cmd := exec.Command(path, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("sample program: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("sample program: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("sample program: %w", err)
	}
	p := &Program{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	ready := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err == nil && line != readyLine {
			err = fmt.Errorf("unexpected output %q", line)
		}
		ready <- err
		child.AwaitEnd(cmd.Process.Pid)
		cmd.Wait()
		close(p.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("the sample program did not start: %w", err)
	}
	return p, nil
}

// PID returns the program's process number.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Stop ends the program and waits until it is gone.
func (p *Program) Stop() {
	p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// Serve is the other side of Start, in the child: it runs the program until stdin ends.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go awaitParent(stdin, cancel)
	if err := Run(ctx, stdout); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// awaitParent calls end when nobody holds the other side of stdin any more.
func awaitParent(stdin io.Reader, end func()) {
	io.Copy(io.Discard, stdin)
	end()
}
