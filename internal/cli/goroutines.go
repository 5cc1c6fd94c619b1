package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/report"
)

// goroutinesFlags are the flags of loupe goroutines.
type goroutinesFlags struct {
	target        targetFlags
	group         bool
	pause         bool
	runtimeFrames bool
	system        bool
	limit         int

	states    []string
	reasons   []string
	function  string
	createdBy string
	labels    []string
	minWait   time.Duration
}

func (a *app) goroutinesCommand() *cobra.Command {
	var flags goroutinesFlags
	cmd := &cobra.Command{
		Use:                   "goroutines [flags] TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "List all goroutines with their stacks, without stopping the program",
		Long: `List the goroutines of a running Go program with their stacks, like a traceback,
without stopping the program.

Text output groups goroutines with the same state, wait reason and stack, the
longest wait first. --group=false lists each goroutine by itself. JSON output
lists each goroutine by itself, including those of the Go runtime. --json
--group prints an array of groups.

The Go runtime records when a wait began at the first garbage collection that
finds the goroutine waiting. Before that only an upper bound is known: "<35s".
A goroutine that ran while its stack was read is marked best effort.

` + targetHelp,
		Example: `  loupe goroutines 1234
  loupe goroutines orders --reason "chan send" --min-wait 1m
  loupe goroutines orders --func 'handler' --label tenant=acme --group=false
  loupe goroutines orders --json | jq '.goroutines[] | select(.waitSeconds > 60) | .g'
  loupe goroutines --after 5s -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	flags.target.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.group, "group", true, "group goroutines with the same state, reason and stack; with --json the default is false")
	f.BoolVar(&flags.pause, "pause", false, "stop the program with ptrace for a few milliseconds, to read all goroutines at one moment")
	f.BoolVar(&flags.runtimeFrames, "runtime-frames", false, "include the frames that a traceback omits: runtime functions and wrappers")
	f.BoolVar(&flags.system, "system", false, "include goroutines of the Go runtime; with --json the default is true")
	f.IntVar(&flags.limit, "limit", 0, "list at most `N` groups or goroutines; 0 lists all")
	f.StringSliceVar(&flags.states, "state", nil, "only goroutines in one of these `STATES`: "+stateNames())
	f.StringArrayVar(&flags.reasons, "reason", nil, "only goroutines whose wait reason contains `TEXT`, such as \"chan send\"; repeatable, any may match")
	f.StringVar(&flags.function, "func", "", "only goroutines with a function on their stack that matches `REGEXP`")
	f.StringVar(&flags.createdBy, "created-by", "", "only goroutines created in a function that matches `REGEXP`")
	f.StringArrayVar(&flags.labels, "label", nil, "only goroutines with the profiler label `KEY=VALUE`, or just KEY; repeatable, all must match")
	f.DurationVar(&flags.minWait, "min-wait", 0, "only goroutines known to have waited at least this long, such as 1m")
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(strings.Split(stateNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := flags.filter(cmd, a.json)
		if err != nil {
			return err
		}
		if a.json && !cmd.Flags().Changed("group") {
			flags.group = false
		}
		return a.onTarget(cmd, args, &flags.target, func(ctx context.Context, pid int) error {
			return a.withProcess(pid, func(p process) error { return a.goroutines(ctx, p, &flags, filter) })
		})
	}
	return cmd
}

// goroutines lists a process's goroutines.
func (a *app) goroutines(ctx context.Context, p process, flags *goroutinesFlags, filter *census.Filter) error {
	snap, err := a.snapshot(ctx, p, loupe.SnapshotOptions{Pause: flags.pause})
	if err != nil {
		return err
	}
	list := report.Goroutines{Info: p.Info(), Snapshot: snap, Selection: filter.Select(snap), Group: flags.group,
		HiddenFrames: flags.runtimeFrames, Limit: flags.limit}
	if a.json {
		return list.JSON(a.Stdout)
	}
	return list.Text(a.Stdout, a.style())
}

// filter makes the filter that the flags ask for.
func (f *goroutinesFlags) filter(cmd *cobra.Command, json bool) (*census.Filter, error) {
	wrong := func(format string, args ...any) (*census.Filter, error) {
		return nil, &usageError{problem: fmt.Sprintf(format, args...), command: cmd.CommandPath()}
	}
	filter := &census.Filter{System: f.system, Reasons: f.reasons, MinWait: f.minWait}
	if json && !cmd.Flags().Changed("system") {
		filter.System = true
	}
	if f.limit < 0 {
		return wrong("--limit %d is negative; 0 lists all", f.limit)
	}
	for _, name := range f.states {
		if !slices.Contains(census.States(), event.State(name)) {
			return wrong("unknown state %q: must be one of %s", name, stateNames())
		}
		filter.States = append(filter.States, event.State(name))
	}
	var err error
	if filter.Func, err = optionalRegexp(f.function); err != nil {
		return wrong("--func: %v", err)
	}
	if filter.CreatedBy, err = optionalRegexp(f.createdBy); err != nil {
		return wrong("--created-by: %v", err)
	}
	for _, l := range f.labels {
		key, value, _ := strings.Cut(l, "=")
		if key == "" {
			return wrong("--label %q has no key: use KEY=VALUE or KEY", l)
		}
		if filter.Labels == nil {
			filter.Labels = map[string]string{}
		}
		filter.Labels[key] = value
	}
	return filter, nil
}

// optionalRegexp compiles an expression; nil when there is none.
func optionalRegexp(expr string) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, nil
	}
	return regexp.Compile(expr)
}

func stateNames() string {
	var names []string
	for _, s := range census.States() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
