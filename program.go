package loupe

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/child"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// program is a program that Attach has started.
type program struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	status int // valid once ended is closed
}

// start starts a program and observes it from its first instruction on. The program is killed when that fails.
func start(ctx context.Context, target Target, opt Options) (*Session, error) {
	if opt.Engine == EngineAgent {
		return nil, errors.New("engine agent cannot start a program: start the program, then give its PID")
	}
	cmd := target.cmd
	if err := ptrace.StartStopped(cmd); err != nil {
		return nil, err
	}
	stopped := &stoppedProgram{cmd}
	pid := cmd.Process.Pid
	var p *goproc.Process
	s, err := opt.withEngine(func(engine probe.Engine) (*Session, error) {
		var err error
		if p, err = goproc.Open(pid, goproc.Options{Log: opt.Log, Starting: true}); err != nil {
			return nil, err
		}
		want, sets, err := opt.observed(p, engine, false)
		if err != nil {
			return nil, err
		}
		s, err := probe.Open(ctx, p, engine, want)
		return opened(s, sets, err)
	})
	if err != nil {
		stopped.kill()
		return nil, err
	}
	s.program = &program{cmd: cmd, ended: make(chan struct{})}
	stopped.release()
	go s.program.await()
	go s.verify(p)
	return s, nil
}

// A program that starts makes threads and goroutines at a rate at which some are always half made: only a layout that does
// not fit for so long is wrong.
const (
	verifyAttempts = 20
	verifyPause    = 50 * time.Millisecond
)

// verify checks the layouts as soon as the program has set up its runtime. Until then the probes have only read memory by
// them; when they do not fit, what they read means nothing.
func (s *Session) verify(p *goproc.Process) {
	var err error
	for range verifyAttempts {
		if err = p.Verify(); !errors.Is(err, ErrLayout) {
			return
		}
		select {
		case <-s.program.ended:
			return
		case <-time.After(verifyPause):
		}
	}
	s.probes.End(err)
}

// stoppedProgram is a program that has been loaded and has not run its first instruction.
type stoppedProgram struct {
	cmd *exec.Cmd
}

// release lets the program run.
func (s *stoppedProgram) release() {
	if err := s.cmd.Process.Signal(unix.SIGCONT); err != nil {
		s.cmd.Process.Kill() // it would stay stopped for ever
	}
}

// kill ends the program.
func (s *stoppedProgram) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// await waits for the program's end.
func (p *program) await() {
	child.AwaitEnd(p.cmd.Process.Pid)
	err := p.cmd.Wait()
	p.status = p.cmd.ProcessState.ExitCode()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.status = 128 + int(ws.Signal())
	}
	if err != nil && p.status == 0 { // its output could not be passed on
		p.status = 1
	}
	close(p.ended)
}

// wait returns the exit status.
func (p *program) wait() int {
	<-p.ended
	return p.status
}
