package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/demo"
	"github.com/loupe-go/loupe/internal/output"
)

// demoProgram is the hidden command that is the sample program.
const demoProgram = "demo-program"

// demoWarmUp is how long the sample program runs before the first snapshot, so that there is something to see.
const demoWarmUp = time.Second

func (a *app) demoCommand() *cobra.Command {
	var duration time.Duration
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the bundled sample program and print a report about it",
		Long: `Run the sample program that is bundled with Loupe, and print the same report as
loupe report: what its goroutines do, which of them look leaked, and what
happened between two snapshots. The demo takes about five seconds, requires no
privilege and leaves nothing behind.

The sample program is a small shop backend: workers on channels, a contended
mutex, network connections, timers, and a search that leaks goroutines. All data
in the report is read from the running process.`,
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
	cmd.Flags().DurationVar(&duration, "duration", reportInterval, "time between the two snapshots")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the sample program running after the report, until Ctrl-C")
	return cmd
}

// demo runs the demonstration.
func (a *app) demo(ctx context.Context, duration time.Duration, keep bool) error {
	program, err := demo.Start(ctx, ownPath(), demoProgram)
	if err != nil {
		return &advisedError{err, "run loupe doctor to see what is missing"}
	}
	defer program.Stop()
	if !a.json {
		fmt.Fprintf(a.Stdout, "The sample program runs as process %d.\n\n", program.PID())
	}
	if err := a.wait(ctx, demoWarmUp, "warming up the sample program"); err != nil {
		return err
	}
	err = a.report(ctx, program.PID(), &reportFlags{interval: duration, live: true, engine: choice{name: string(loupe.EngineAuto)}})
	if err != nil {
		return err
	}
	if !a.json {
		fmt.Fprintf(a.Stdout, "\nFor the same report on your own program: loupe report PID (loupe ps lists PIDs)\n")
	}
	if keep {
		a.note("the sample program continues as process %d until Ctrl-C", program.PID())
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

// demoProgramCommand is the sample program itself.
func (a *app) demoProgramCommand() *cobra.Command {
	return &cobra.Command{
		Use:     demoProgram,
		Short:   "Run the sample program until end of file on stdin",
		Example: "  sleep 60 | loupe demo-program",
		Hidden:  true,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Serve(cmd.Context(), a.Stdin, output.Writer(a.Stdout))
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
}
