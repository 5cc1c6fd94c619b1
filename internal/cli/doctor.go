package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/internal/english"
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
			return a.doctor(loupe.CheckMachine)
		}
		return a.onTarget(cmd, args, &flags, func(ctx context.Context, pid int) error {
			if repair {
				if err := a.repair(pid); err != nil {
					return err
				}
			}
			return a.doctor(func() (r *checkup.Report) {
				a.state.hold.stopping(func() error { r = a.system.check(ctx, pid, a.processOptions()); return nil })
				return r
			})
		})
	}
	return cmd
}

// repair removes what a killed Loupe has left in a process.
func (a *app) repair(pid int) error {
	var places int
	var found bool
	err := a.state.hold.stopping(func() (err error) {
		places, found, err = loupe.Repair(pid, a.processOptions())
		return err
	})
	switch {
	case err != nil:
		return &targetError{pid: pid, err: err}
	case !found:
		a.note("process %d: nothing to repair", pid)
	default:
		a.note("process %d: restored the code at %s, removed everything that Loupe left", pid, english.Count(places, "place"))
	}
	return nil
}

// doctor prints a check-up.
func (a *app) doctor(check func() *checkup.Report) error {
	progress := a.progress("checking")
	r := check()
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
