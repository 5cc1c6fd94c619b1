package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/child"
	"github.com/loupe-go/loupe/internal/output"
)

// onProgram starts a program, calls look with its PID after a while, and stays until the program ends. The error passes
// on the program's exit status.
func (a *app) onProgram(ctx context.Context, argv []string, after time.Duration, look func(ctx context.Context, pid int) error) error {
	cmd := a.programCommand(argv)
	signals, release := a.catchSignals()
	defer release()
	if err := cmd.Start(); err != nil {
		return cannotStart(cmd, err)
	}
	ended := make(chan struct{})
	var waitErr error
	go func() {
		child.AwaitEnd(cmd.Process.Pid) // not the stops of --pause
		waitErr = cmd.Wait()
		close(ended)
	}()
	go passOn(signals, cmd.Process, ended)

	lookErr := a.told(lookAfter(ctx, after, ended, argv[0], func() error { return look(ctx, cmd.Process.Pid) }))
	<-ended
	return withProgram(programStatus(waitErr), lookErr)
}

// programCommand prepares a program that Loupe starts.
func (a *app) programCommand(argv []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	// What Loupe says on stdout may be read by a program, so the target's output must not be in between.
	// It writes to the file itself, not through Loupe.
	stderr := output.Writer(a.Stderr)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, stderr, stderr
	return cmd
}

// cannotStart is the error of a program that could not be started.
func cannotStart(cmd *exec.Cmd, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		err = errors.New("no executable of this name in PATH") // os/exec repeats the name
	}
	return &targetError{err: &advisedError{fmt.Errorf("cannot start %s: %w", cmd.Args[0], err), "give the path of a program, or its name in PATH, after --"}}
}

// catchSignals catches the signals that ask Loupe to end while it stays with a program, for the program. It also lets
// Loupe live on when whoever reads its stdout has read enough. SIGHUP stays ignored if it is, as with nohup: the program
// then ignores it too.
func (a *app) catchSignals() (signals <-chan os.Signal, release func()) {
	a.state.staying.Store(true)
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(caught, syscall.SIGHUP)
	}
	releasePipe := catchBrokenPipe()
	return caught, func() {
		signal.Stop(caught)
		releasePipe()
		a.state.staying.Store(false)
	}
}

// catchBrokenPipe makes writing to a closed pipe an error instead of Loupe's sudden end: the one who reads stdout may have
// read enough, as head does, while a program must not be left alone, or a target be left with probes in it. A program
// would inherit it if the signal were ignored, so it is caught.
func catchBrokenPipe() (release func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGPIPE)
	return func() { signal.Stop(caught) }
}

// told tells the user of an error at once, while the program goes on, and returns it; a closed stdout is none.
func (a *app) told(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	if err != nil {
		if line := errorLine(err); line != "" {
			fmt.Fprintln(a.Stderr, line)
		}
	}
	return err
}

// withProgram is how Loupe ends after a program that it has started: with the program's exit status, or when that is
// zero, with that of what Loupe did, of which the user has been told.
func withProgram(status int, err error) error {
	switch {
	case status != 0:
		return &reportedError{status}
	case err != nil:
		return &reportedError{exitStatus(err)}
	}
	return nil
}

// lookAfter calls look when the program has run for a while.
func lookAfter(ctx context.Context, after time.Duration, ended <-chan struct{}, name string, look func() error) error {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return look()
	case <-ended:
		return &advisedError{fmt.Errorf("%s exited within %v, before Loupe inspected it", name, after), "use a shorter --after"}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passOn sends the signals that ask Loupe to end to the program, until it has ended. The terminal's Ctrl-C reaches the
// program without help.
func passOn(signals <-chan os.Signal, program *os.Process, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt || !inForeground() {
				program.Signal(s) // fails only when the program has ended
			}
		case <-ended:
			return
		}
	}
}

// inForeground reports whether this process belongs to the foreground job of a terminal, which gets Ctrl-C as a whole.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// programStatus returns a program's exit status as a shell would.
func programStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return exitFailed
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
