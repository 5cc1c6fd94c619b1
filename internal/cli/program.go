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
)

// onProgram starts a program, calls look with its PID after a while, and stays until the program ends. The error passes
// on the program's exit status.
func (a *app) onProgram(ctx context.Context, argv []string, after time.Duration, look func(ctx context.Context, pid int) error) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	// What Loupe says on stdout may be read by a program, so the target's output must not be in between.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stderr, a.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// Whoever reads Loupe's stdout may have read enough, as head does; the program must not be left alone for that. It
	// would inherit it if the signal were ignored, so it is caught.
	brokenPipe := make(chan os.Signal, 1)
	signal.Notify(brokenPipe, syscall.SIGPIPE)
	defer signal.Stop(brokenPipe)
	if err := cmd.Start(); err != nil {
		return &targetError{err: &advisedError{fmt.Errorf("cannot start %s: %w", argv[0], err), "give a program's path or its name in PATH after --"}}
	}
	ended := make(chan struct{})
	var waitErr error
	go func() {
		child.AwaitEnd(cmd.Process.Pid) // not the stops of --pause
		waitErr = cmd.Wait()
		close(ended)
	}()
	go passOn(signals, cmd.Process, ended)

	lookErr := lookAfter(ctx, after, ended, argv[0], func() error { return look(ctx, cmd.Process.Pid) })
	if errors.Is(lookErr, syscall.EPIPE) {
		lookErr = nil
	}
	if lookErr != nil {
		if line := errorLine(lookErr); line != "" {
			fmt.Fprintln(a.Stderr, line)
		}
	}
	<-ended
	switch status := programStatus(waitErr); {
	case status != 0:
		return &reportedError{status}
	case lookErr != nil:
		return &reportedError{exitStatus(lookErr)}
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
		return &advisedError{fmt.Errorf("%s ended within %v, before it was looked at", name, after), "use a shorter --after"}
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
