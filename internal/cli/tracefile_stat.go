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
		Short:                 "What is in a trace: who ran, who waited for what, and how long",
		Long: `Read a trace and say what goroutines did with their time. Those that start with
the same function are counted together: how long they ran, were runnable, were
blocked and for what reason, were in system calls, and were alive, with the
shortest, the longest and the average time of one, and the times that half, 90 %
and 99 % of them do not exceed. Then where they waited, how long the scheduler
let them wait for a processor, the garbage collector, and events by kind.

Times are those within the trace: what was before it began or after it ended is
not counted. The percentiles of more than 32 times are off by 3 % at most.

KEY is what goroutines are counted by:
  start    the function that they start with
  creator  the go statement that created them
  none     nothing: each by itself

A trace that is damaged or truncated is read until there.`,
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
	f.StringVar(&by, "by", bys[0], "count goroutines by this `KEY`: "+strings.Join(bys, ", "))
	f.StringVar(&order, "sort", orders[0], "largest of these sums first: "+strings.Join(orders, ", "))
	f.IntVar(&opt.Top, "top", 10, "tell the first `N` groups and places apart; 0 tells all")
	f.BoolVar(&opt.System, "system", false, "the runtime's own goroutines too")
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
		Short:                 "All that is wrong in a trace, with the place of each problem",
		Long: `Look for all problems of a trace, not only the first one: in its framing, its
strings and stacks, and in the order of its events. An error is what go tool
trace refuses; a warning what it accepts although no Go program writes it, or
leaves out without a word.

The exit status is 0 when there is no error, and 1 when there is one.`,
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
