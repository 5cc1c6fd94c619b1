package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/doctor"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

func (a *app) psCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ps",
		Short: "List Go processes",
		Long: `List the Go processes on this machine, including those in containers: the user,
the Go release that built the program, the number of goroutines, how the program
is linked, whether it is stripped, and which engines can attach.

GOROUTINES is ? if Loupe may not read the memory of the process. loupe doctor
PID reports the reason.`,
		Example: `  loupe ps
  sudo loupe ps
  loupe ps --json | jq '.[] | select(.goroutines > 10000) | .pid'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ps(cmd.Context()) },
	}
}

// ps lists the Go processes.
func (a *app) ps(ctx context.Context) error {
	progress := a.progress("looking for Go processes")
	var list []event.ProcessInfo
	var denied []int
	var failed []error
	for p, err := range a.system.list(ctx) {
		switch {
		case err == nil:
			list = append(list, p)
		case errors.Is(err, loupe.ErrPermission):
			denied = append(denied, p.PID)
		default:
			failed = append(failed, err)
		}
	}
	progress.Stop()
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if a.json {
		err = report.ProcessesJSON(a.Stdout, list)
	} else {
		err = report.Processes(a.Stdout, a.style(), term.Width(a.Stdout), list)
	}
	if err != nil {
		return err
	}
	a.missing(denied, failed)
	if len(list) == 0 && len(failed) > 0 {
		return &advisedError{errors.New("no Go process could be read"), "run loupe doctor to see what is missing"}
	}
	return nil
}

// missing says what is not in the list, and why. Processes that may not be read are put together: on most machines there
// are many, and whether they are Go programs is unknown.
func (a *app) missing(denied []int, failed []error) {
	for _, err := range failed {
		a.note("cannot list: %v", err)
	}
	remedy := "loupe doctor PID reports why"
	if !doctor.GatherAccess("/").Caps.Has(unix.CAP_SYS_PTRACE) {
		remedy = "sudo loupe ps lists all"
	}
	if n := len(denied); n > 0 {
		a.note("cannot read %s: permission denied: %s %s; %s", english.Count(n, "process"), english.Pick(n, "PID", "PIDs"), pidList(denied), remedy)
	}
}
