package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/doctor"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

func (a *app) doctorCommand() *cobra.Command {
	var flags targetFlags
	var repair bool
	cmd := &cobra.Command{
		Use:                   "doctor [flags] [TARGET | -- PROG ARGS...]",
		DisableFlagsInUseLine: true,
		Short:                 "Check what can be observed here, and how to fix what cannot",
		Long: `Check what can be observed on this machine, and in a target.

The checks cover the kernel, BPF, capabilities and ptrace restrictions. For a
target they also cover its Go release, its executable, the layout of the
runtime's data structures, its tracer, and the breakpoints of other tracers in
its code. Each problem is reported with its effect and its remedy. The last part
of the output lists what is available, and what is required for the rest.

doctor changes nothing unless --repair is given. --repair restores a process
after a Loupe that used engine inline was killed.

` + targetHelp + `

Exit status: 0 if goroutines can be observed, 3 if not.`,
		Example: `  loupe doctor
  loupe doctor 1234
  loupe doctor 1234 --repair
  loupe doctor orders --json | jq '.abilities[] | select(.requirementsMet | not)'`,
		Args:              targetArgs(true),
		ValidArgsFunction: a.completeTarget,
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&repair, "repair", false, "remove what a killed Loupe left in TARGET")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			if repair {
				return &usageError{problem: "--repair requires a TARGET", command: cmd.CommandPath()}
			}
			return a.doctor(nil)
		}
		return a.onTarget(cmd, args, &flags, func(ctx context.Context, pid int) error {
			if repair {
				if err := a.repair(pid); err != nil {
					return err
				}
			}
			return a.doctor(a.examine(ctx, pid))
		})
	}
	return cmd
}

// examine looks at a target.
func (a *app) examine(ctx context.Context, pid int) *doctor.Target {
	t := doctor.LookAt(pid)
	notes, notesErr := inline.Look(pid)
	t.Err = a.withProcess(pid, func(p process) error {
		t.Info, t.Warnings = p.Info(), p.Warnings()
		var known []ptrace.Edit
		if notes != nil {
			known = notes.Edits
		}
		var err error
		if t.Breakpoints, err = p.Breakpoints(known); err != nil {
			t.Warnings = append(t.Warnings, err.Error())
		}
		return nil
	})
	var target *targetError
	if errors.As(t.Err, &target) {
		t.Err = target.err // the report has a remedy of its own
	}
	if t.Err == nil && t.Info.Goroutines < 0 {
		t.Err = goproc.ErrExited
	}
	if notesErr != nil {
		t.Warnings = append(t.Warnings, notesErr.Error())
	} else if notes != nil {
		t.Inline = &doctor.Inline{Loupe: int(notes.Loupe), Alive: notes.Alive(), Places: len(notes.Edits), Memory: notes.Shared != 0}
	}
	if t.Err == nil && t.Tracer == 0 && (t.Inline == nil || !t.Inline.Memory) { // engine inline is unavailable otherwise
		t.Refusal = a.state.hold.stopping(func() error { return a.system.checkInline(ctx, pid) })
	}
	return t
}

// repair removes what a killed Loupe has left in a process.
func (a *app) repair(pid int) error {
	p, err := goproc.Open(pid, goproc.Options{Log: a.log()})
	if err != nil {
		return &targetError{pid: pid, err: err}
	}
	defer p.Close()
	var notes *inline.Notes
	err = a.state.hold.stopping(func() (err error) {
		notes, err = inline.Repair(pid, p.SignalStacks)
		return err
	})
	switch {
	case err != nil:
		return &targetError{pid: pid, err: err}
	case notes == nil:
		a.note("process %d: nothing to repair", pid)
	default:
		a.note("process %d: restored the code at %s, removed everything that Loupe left", pid, english.Count(len(notes.Edits), "place"))
	}
	return nil
}

// doctor prints the check-up of the machine and of a target, when there is one.
func (a *app) doctor(t *doctor.Target) error {
	progress := a.progress("checking")
	r := doctor.Examine(doctor.Gather("/"), t)
	progress.Stop()
	var err error
	if a.json {
		err = report.WriteJSON(a.Stdout, r)
	} else {
		err = report.CheckUp(a.Stdout, a.style(), term.Width(a.Stdout), r)
	}
	if err == nil && !r.Usable() {
		err = &reportedError{exitUnobservable}
	}
	return err
}
