package loupe

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/child"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
)

// program is a program that Attach has started.
type program struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	status int // valid once ended is closed
}

// start starts a program and observes it from its first instruction on. The program is killed when that fails.
func start(ctx context.Context, cmd *exec.Cmd, opt Options) (*Session, error) {
	stopped, err := startStopped(cmd)
	if err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	var p *goproc.Process
	probes, err := opt.withEngine(func(engine probe.Engine) (*probe.Session, error) {
		var err error
		if p, err = goproc.Open(pid, goproc.Options{Log: opt.Log, Starting: true}); err != nil {
			return nil, err
		}
		return probe.Open(ctx, p, engine, opt.want())
	})
	if err != nil {
		stopped.kill()
		return nil, err
	}
	s := &Session{probes: probes, program: &program{cmd: cmd, ended: make(chan struct{})}}
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

// startStopped starts a program and stops it before its first instruction: by ptrace, which then leaves it to the signal
// that stops a process, so that an engine can trace it.
func startStopped(cmd *exec.Cmd) (*stoppedProgram, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	s := &stoppedProgram{cmd}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // ptrace binds the program to this thread
		defer runtime.UnlockOSThread()
		started <- s.begin()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return s, nil
}

// begin starts the program and waits for its stop.
func (s *stoppedProgram) begin() error {
	if err := s.cmd.Start(); err != nil {
		return err
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(s.cmd.Process.Pid, &status, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			s.cmd.Process.Kill()
			s.cmd.Wait()
			return fmt.Errorf("%s did not stop at its beginning: %v", s.cmd.Path, errors.Join(err, fmt.Errorf("status %#x", uint32(status))))
		}
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(s.cmd.Process.Pid), 0, uintptr(unix.SIGSTOP), 0, 0)
		if errno != 0 {
			s.kill()
			return fmt.Errorf("%s: leaving it stopped at its beginning: %w", s.cmd.Path, errno)
		}
		return nil
	}
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
