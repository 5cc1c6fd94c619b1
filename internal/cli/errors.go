package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/filelimit"
	"github.com/loupe-go/loupe/internal/term"
)

// The exit statuses.
const (
	exitDone         = 0
	exitFailed       = 1 // it failed while working
	exitUsage        = 2 // wrong usage
	exitUnobservable = 3 // the target cannot be observed
)

// usageError is a command line that cannot be understood.
type usageError struct {
	problem string
	command string // the command whose help tells more
}

func (e *usageError) Error() string { return fmt.Sprintf("%s; see %s --help", e.problem, e.command) }

// advisedError is an error and what to do about it.
type advisedError struct {
	err    error
	advice string
}

func (e *advisedError) Error() string { return e.err.Error() + "; " + e.advice }
func (e *advisedError) Unwrap() error { return e.err }

// targetError is why a target cannot be observed.
type targetError struct {
	pid    int // 0 when there is no process
	err    error
	engine loupe.Engine // that was to observe live events; empty for a snapshot
}

func (e *targetError) Unwrap() error { return e.err }

func (e *targetError) Error() string {
	why, remedy := loupe.Advise(e.err, e.pid, e.engine)
	text := e.err.Error()
	if why != "" {
		text += ": " + why
	}
	if remedy != "" {
		text += "; " + remedy
	}
	return text
}

// engineLacks returns what an engine requires and does not have on this machine; empty if nothing is missing.
func engineLacks(engine loupe.Engine) string {
	if engine == loupe.EngineAuto {
		engine = loupe.EngineUprobe
	}
	ability, _ := loupe.CheckMachine().Ability(string(engine))
	return strings.Join(ability.Missing, "; ")
}

// reportedError has been told to the user already; only its exit status matters.
type reportedError struct{ status int }

func (e *reportedError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// unobservable lists the errors of package loupe that exit status 3 stands for.
var unobservable = []error{loupe.ErrNoProcess, loupe.ErrPermission, loupe.ErrNotGo, loupe.ErrUnsupported,
	loupe.ErrLayout, loupe.ErrExited, loupe.ErrProfileOff}

// exitStatus returns the exit status that an error stands for.
func exitStatus(err error) int {
	var usage *usageError
	var target *targetError
	var reported *reportedError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &reported):
		return reported.status
	case errors.As(err, &usage), errors.Is(err, loupe.ErrSelection):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitFailed
	case errors.As(err, &target):
		return exitUnobservable
	}
	for _, sentinel := range unobservable {
		if errors.Is(err, sentinel) {
			return exitUnobservable
		}
	}
	return exitFailed
}

// errorLine returns what the user is told of an error: one line. It is empty when there is nothing to tell.
func errorLine(err error) string {
	var reported *reportedError
	switch {
	case errors.As(err, &reported):
		return ""
	case errors.Is(err, context.Canceled):
		return "loupe: interrupted"
	}
	line := "loupe: " + term.Escape(err.Error())
	if errors.Is(err, syscall.EMFILE) {
		line += "; " + filelimit.Advice
	}
	return line
}
