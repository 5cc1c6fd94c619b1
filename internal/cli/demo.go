package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/census"
	"github.com/loupe-go/loupe/internal/demo"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// demoProgram is the hidden command that is the sample program.
const demoProgram = "demo-program"

// demoWarmUp is how long the sample program runs before the first look, so that there is something to see.
const demoWarmUp = time.Second

func (a *app) demoCommand() *cobra.Command {
	var duration time.Duration
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start the bundled sample program, attach, show what it does, print a report",
		Long: `Start the sample program that is bundled with Loupe, look at it twice while it
runs, and report what its goroutines do and which of them leak, and what happens
between the two looks: goroutines created, waits, locks, scheduler latency. It
takes about five seconds, needs no privilege, and leaves nothing behind.

The sample program is a small shop backend: workers on channels, a contended
mutex, network connections, timers, and a search that leaks goroutines. What is
reported is read from the running process alone.`,
		Example: `  loupe demo
  loupe demo --duration 10s
  loupe demo --keep        # then, in another terminal: loupe goroutines PID`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if duration <= 0 {
				return &usageError{problem: fmt.Sprintf("--duration %v is not positive", duration), command: cmd.CommandPath()}
			}
			return a.demo(cmd.Context(), duration, keep)
		},
	}
	cmd.Flags().DurationVar(&duration, "duration", 3*time.Second, "time between the two looks")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the sample program running after the report, until Ctrl-C")
	return cmd
}

// demo runs the demonstration.
func (a *app) demo(ctx context.Context, duration time.Duration, keep bool) error {
	program, err := demo.Start(ctx, ownPath(), demoProgram)
	if err != nil {
		return &advisedError{err, "loupe doctor tells what is missing here"}
	}
	defer program.Stop()
	if !a.json {
		fmt.Fprintf(a.Stdout, "The sample program runs as process %d; it is looked at twice, %s apart.\n\n",
			program.PID(), report.Duration(duration))
	}
	err = a.withProcess(program.PID(), func(p process) error { return a.compare(ctx, p, duration) })
	if err != nil {
		return err
	}
	if !a.json {
		fmt.Fprintf(a.Stdout, "\nThe same on programs of your own: loupe ps, then loupe goroutines PID and loupe trace PID\n")
	}
	if keep {
		a.note("the sample program goes on as process %d until Ctrl-C", program.PID())
		<-ctx.Done()
	}
	return nil
}

// ownPath returns a path of this very executable. When it has been moved, replaced or deleted, only the kernel knows one.
func ownPath() string {
	const link = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return link
	}
	there, errThere := os.Stat(path)
	self, errSelf := os.Stat(link)
	if errThere != nil || errSelf != nil || !os.SameFile(there, self) {
		return link
	}
	return path
}

// compare looks at a process twice and reports what has changed.
func (a *app) compare(ctx context.Context, p process, interval time.Duration) error {
	first, err := a.lookIn(ctx, p, demoWarmUp, "the sample program warms up")
	if err != nil {
		return err
	}
	live := make(chan *report.Live, 1)
	go func() { live <- a.watchLive(ctx, p.Info().PID, interval) }()
	second, err := a.lookIn(ctx, p, interval, "watching process "+fmt.Sprint(p.Info().PID))
	inBetween := <-live // also when it is of no use any more, so that nothing stays attached
	if err != nil {
		return err
	}
	c := report.Comparison{Info: p.Info(), Census: census.Compare(first, second), Live: inBetween}
	if a.json {
		return c.JSON(a.Stdout)
	}
	return c.Text(a.Stdout, a.style(), term.Width(a.Stdout))
}

// lookIn takes a snapshot after a while.
func (a *app) lookIn(ctx context.Context, p process, wait time.Duration, meanwhile string) (*goproc.Snapshot, error) {
	progress := a.progress(meanwhile)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	progress.Stop()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return a.snapshot(ctx, p, goproc.SnapshotOptions{})
}

// demoProgramCommand is the sample program itself.
func (a *app) demoProgramCommand() *cobra.Command {
	return &cobra.Command{
		Use:     demoProgram,
		Short:   "Be the sample program until stdin ends",
		Example: "  sleep 60 | loupe demo-program",
		Hidden:  true,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Serve(cmd.Context(), a.Stdin, a.Stdout)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
}
