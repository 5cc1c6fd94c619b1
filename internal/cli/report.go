package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// reportInterval is the time between the two snapshots of a report: long enough for a leak to show.
const reportInterval = 3 * time.Second

// reportFlags are the flags of loupe report.
type reportFlags struct {
	interval time.Duration
	live     bool
	engine   choice
	after    time.Duration
}

func (a *app) reportCommand() *cobra.Command {
	var flags reportFlags
	cmd := &cobra.Command{
		Use:                   "report [flags] TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Report what a program does, what changes, and what looks leaked",
		Long: `Take two snapshots of a running Go program and compare them. The report shows
what the goroutines do, how their number changed, and which of them look leaked,
with the evidence and the usual fix. loupe demo prints the same report.

Between the two snapshots report observes live events: goroutines created,
waits, contended locks, scheduler latency. If live events are not permitted, the
report says so and omits that part. --live=false only reads memory and attaches
no probes.

A group of goroutines looks leaked if it waits for something that only another
goroutine can do, if it has grown, and if its goroutines of the first snapshot
are still waiting. A slow leak requires a longer --interval.

` + targetHelp,
		Example: `  loupe report 1234
  loupe report orders --interval 1m
  loupe report orders --live=false
  loupe report orders --json | jq '.suspects[] | {count, growthPerMinute, evidence}'
  loupe report --after 10s -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	f := cmd.Flags()
	f.DurationVar(&flags.interval, "interval", reportInterval, "time between the two snapshots, such as 30s")
	f.BoolVar(&flags.live, "live", true, "observe live events between the snapshots, if permitted")
	f.DurationVar(&flags.after, "after", time.Second, "with -- PROG: take the first snapshot after the program has run for this time")
	addEngine(&flags.engine, cmd, "")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.interval <= 0 {
			return &usageError{problem: fmt.Sprintf("--interval %v is not positive", flags.interval), command: cmd.CommandPath()}
		}
		target := targetFlags{after: flags.after, engine: flags.engine}
		return a.onTarget(cmd, args, &target, func(ctx context.Context, pid int) error { return a.report(ctx, pid, &flags) })
	}
	return cmd
}

// report compares two snapshots of a process.
func (a *app) report(ctx context.Context, pid int, flags *reportFlags) error {
	return a.withProcess(pid, func(p process) error {
		c, err := a.compare(ctx, p, flags)
		switch {
		case err != nil:
			return err
		case a.json:
			return c.JSON(a.Stdout)
		}
		return c.Text(a.Stdout, a.style(), term.Width(a.Stdout))
	})
}

// compare takes two snapshots of a process, and observes its events in between.
func (a *app) compare(ctx context.Context, p process, flags *reportFlags) (*report.Comparison, error) {
	first, err := a.snapshot(ctx, p, loupe.SnapshotOptions{})
	if err != nil {
		return nil, err
	}
	pid := p.Info().PID
	between, over := context.WithCancel(ctx)
	defer over()
	live := make(chan *report.Live, 1)
	if flags.live {
		go func() { live <- a.watchLive(between, pid, loupe.Engine(flags.engine.name)) }()
	} else {
		live <- nil
	}
	err = a.wait(ctx, flags.interval, fmt.Sprintf("observing process %d", pid))
	over()
	var second *event.Snapshot
	if err == nil {
		second, err = a.snapshot(ctx, p, loupe.SnapshotOptions{})
	}
	seen := <-live // after an error too, so that nothing stays attached
	if err != nil {
		return nil, err
	}
	return &report.Comparison{Info: p.Info(), Census: census.Compare(first, second), Live: seen}, nil
}

// wait reads the clock every beat. A beat that takes longer than maxBeat is counted as maxBeat.
const (
	beat    = 20 * time.Millisecond
	maxBeat = 100 * time.Millisecond
)

// wait waits for d, and shows meanwhile what for. Time in which the machine stood still does not count: a program does
// nothing in it either, and all its goroutines that wait would seem to be stuck.
func (a *app) wait(ctx context.Context, d time.Duration, meanwhile string) error {
	progress := a.progress(meanwhile)
	defer progress.Stop()
	for d > 0 {
		began := time.Now()
		select {
		case <-time.After(min(d, beat)):
			d -= min(time.Since(began), maxBeat)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
