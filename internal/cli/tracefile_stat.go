package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/internal/tracefile"
	"github.com/loupe-go/loupe/trace"
)

func (a *app) tracefileStatCommand() *cobra.Command {
	var by, order string
	opt := tracefile.StatOptions{}
	cmd := &cobra.Command{
		Use:                   "stat [flags] FILE",
		DisableFlagsInUseLine: true,
		Short:                 "Summarize a trace: running, runnable and blocked time, latency, GC",
		Long: `Summarize how goroutines spent their time in a trace. Goroutines are grouped by
the function that they start with. For each group stat prints how long its
goroutines ran, were runnable, were blocked and for what reason, were in system
calls, and were alive: the total, the minimum, the maximum, the average, and the
50th, 90th and 99th percentile of one goroutine. It then prints the places where
goroutines waited, scheduler latency, garbage collections, and events by kind.

Only time within the trace counts. Percentiles of more than 32 values have an
error of at most 3 %.

KEY is what goroutines are grouped by:
  start    the function that they start with
  creator  the go statement that created them
  none     no grouping: each goroutine by itself

A damaged or truncated trace is read up to the damage.`,
		Example: `  loupe tracefile stat app.trace
  loupe tracefile stat app.trace --by creator --sort blocked
  loupe tracefile stat app.trace --by none --top 100
  loupe tracefile stat app.trace --json | jq '.groups[] | [.start.func, .running.p99Nanoseconds]'
  curl -s localhost:6060/debug/pprof/trace?seconds=5 | loupe tracefile stat -`,
		Args:              oneFile,
		ValidArgsFunction: completeFiles,
	}
	bys, orders := []string{string(tracefile.ByStart), string(tracefile.ByCreator), string(tracefile.ByNone)}, wordsOf(tracefile.Orders())
	f := cmd.Flags()
	f.StringVar(&by, "by", bys[0], "group goroutines by this `KEY`: "+strings.Join(bys, ", "))
	f.StringVar(&order, "sort", orders[0], "sort by this total, largest first: "+strings.Join(orders, ", "))
	f.IntVar(&opt.Top, "top", 10, "list the first `N` groups and places; 0 lists all")
	f.BoolVar(&opt.System, "system", false, "include goroutines of the Go runtime")
	cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(bys, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		problem := ""
		switch {
		case !slices.Contains(bys, by):
			problem = fmt.Sprintf("--by %s: must be one of %s", by, strings.Join(bys, ", "))
		case !slices.Contains(orders, order):
			problem = fmt.Sprintf("--sort %s: must be one of %s", order, strings.Join(orders, ", "))
		case opt.Top < 0:
			problem = fmt.Sprintf("--top %d is negative", opt.Top)
		}
		if problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		opt.By, opt.Order = tracefile.By(by), tracefile.Order(order)
		return a.tracefileStat(cmd, args[0], opt)
	}
	return cmd
}

// tracefileStat prints what is in a trace.
func (a *app) tracefileStat(cmd *cobra.Command, path string, opt tracefile.StatOptions) error {
	in, err := tracefile.Open(cmd.Context(), path, a.Stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	in.MaxMemory = int64(a.maxMemory)
	progress := a.progress("reading " + in.Name)
	sum, err := tracefile.Stat(cmd.Context(), in, opt)
	progress.Stop()
	if err != nil {
		return err
	}
	if a.json {
		err = report.TraceSummaryJSON(a.Stdout, sum)
	} else {
		err = report.TraceSummary(a.Stdout, a.style(), term.Width(a.Stdout), sum)
	}
	if err != nil {
		return unlessReadEnough(err)
	}
	if sum.Err != nil {
		return &advisedError{sum.Err, "the summary covers the part before the damage"}
	}
	return nil
}

// wordsOf returns texts of another type as texts.
func wordsOf[T ~string](list []T) []string {
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = string(w)
	}
	return words
}

func (a *app) tracefileValidateCommand() *cobra.Command {
	limit := trace.DefaultPerCode
	cmd := &cobra.Command{
		Use:                   "validate [flags] FILE",
		DisableFlagsInUseLine: true,
		Short:                 "Report all problems of a trace, with their positions",
		Long: `Report all problems of a trace, not only the first one: problems in its framing,
in its strings and stacks, and in the order of its events. An error is a problem
that go tool trace rejects. A warning is a problem that it accepts, although no
Go program writes it, or that it silently ignores.

The exit status is 0 if there are no errors, 1 otherwise.`,
		Example: `  loupe tracefile validate app.trace
  loupe tracefile validate app.trace --limit 0
  loupe tracefile validate app.trace --json | jq .counts`,
		Args:              oneFile,
		ValidArgsFunction: completeFiles,
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "list at most `N` problems of each kind; 0 lists all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return &usageError{problem: fmt.Sprintf("--limit %d is negative", limit), command: cmd.CommandPath()}
		}
		return a.tracefileValidate(cmd, args[0], limit)
	}
	return cmd
}

// tracefileValidate prints what is wrong in a trace.
func (a *app) tracefileValidate(cmd *cobra.Command, path string, limit int) error {
	in, err := tracefile.Open(cmd.Context(), path, a.Stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	in.MaxMemory = int64(a.maxMemory)
	if limit == 0 {
		limit = math.MaxInt
	}
	progress := a.progress("reading " + in.Name)
	r, err := tracefile.Validate(cmd.Context(), in, trace.ValidateOptions{PerCode: limit})
	progress.Stop()
	if r == nil {
		return err
	}
	var printErr error
	if a.json {
		printErr = report.TraceProblemsJSON(a.Stdout, in.Name, r)
	} else {
		printErr = report.TraceProblems(a.Stdout, a.style(), in.Name, r)
	}
	switch {
	case printErr != nil:
		return unlessReadEnough(printErr)
	case err != nil:
		return err
	case !r.Valid():
		return &reportedError{exitFailed}
	}
	return nil
}
