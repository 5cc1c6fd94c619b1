package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// allocFlags are the flags of loupe allocs.
type allocFlags struct {
	live     liveFlags
	interval time.Duration
	by       []string
	top      int
	sample   bool
}

func (a *app) allocsCommand() *cobra.Command {
	var flags allocFlags
	cmd := &cobra.Command{
		Use:                   "allocs [flags] TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Count what a running program allocates, and where",
		Long: `Count the allocations of a running Go program: exactly, without sampling, and
without a memory profile in the program. The numbers are those of the runtime:
objects as in runtime.MemStats.Mallocs, bytes as in TotalAlloc, rounded up to
size classes. Of tiny objects, which share blocks of 16 bytes, the first one in
a block counts 16 bytes.

Each --by prints a table:
  goroutine  the goroutine that allocates
  creator    the go statement that created it
  function   the function that allocates, other than those of the runtime
  size       the size of the objects; tiny: objects that share blocks
  type       the type of the objects, or of the elements of slices and arrays

The default engine is inline, which patches the process and takes 20 to 60 ns
for each allocation, more with thousands of different stacks. Engine uprobe
takes 1 µs or more. With --sample the numbers are estimates from the
allocations that the program's runtime samples for its memory profile, by
default one in 512 KiB, which costs next to nothing. It requires a program that
records the profile, such as one that imports net/http/pprof. Types are unknown
then, and objects that share a block of 16 bytes count as one.

` + liveTargetHelp,
		Example: `  loupe allocs 1234
  loupe allocs orders --duration 1m --by function,type
  loupe allocs orders --interval 1s --by creator --top 5
  loupe allocs orders --sample --duration 1m
  loupe allocs orders --json | jq '.byFunction[0]'
  loupe allocs --duration 0 -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	addEngine(&flags.live.engine, cmd, "")
	flags.live.add(cmd, 10*time.Second)
	var names []string
	for _, d := range allocs.Dimensions() {
		names = append(names, string(d))
	}
	f := cmd.Flags()
	f.DurationVar(&flags.interval, "interval", 0, "also print what was allocated in each interval of this time; with --json one object per line")
	f.StringSliceVar(&flags.by, "by", names, "`TABLES` to print, separated by commas: "+strings.Join(names, ", "))
	f.BoolVar(&flags.sample, "sample", false, "estimate from the allocations that the runtime samples, instead of counting each")
	f.IntVar(&flags.top, "top", 10, "print at most `N` rows of each table; 0 prints all. JSON has all")
	cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		by, problem := flags.dimensions(cmd.Flags().Changed("by"))
		if problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		opt := flags.live.options(a)
		if opt.Allocs.Sample = flags.sample; !flags.sample {
			opt.Allocs.By = sumsFor(by)
		}
		return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
			return a.allocs(ctx, s, &flags, by)
		})
	}
	return cmd
}

// dimensions returns the tables to print, and what is wrong with the flags or the empty string. chosen reports whether --by is set.
func (f *allocFlags) dimensions(chosen bool) (by []allocs.Dimension, problem string) {
	for _, name := range f.by {
		if !slices.Contains(allocs.Dimensions(), allocs.Dimension(name)) {
			return nil, fmt.Sprintf("unknown table %q in --by: must be one of goroutine, creator, function, size, type", name)
		}
		if f.sample && allocs.Dimension(name) == allocs.ByType {
			if chosen {
				return nil, "--sample knows no types: leave out --by type"
			}
			continue
		}
		if !slices.Contains(by, allocs.Dimension(name)) {
			by = append(by, allocs.Dimension(name))
		}
	}
	switch {
	case len(by) == 0:
		return nil, "--by names no table"
	case f.interval < 0:
		return nil, fmt.Sprintf("--interval %v is negative", f.interval)
	case f.top < 0:
		return nil, fmt.Sprintf("--top %d is negative; 0 prints all", f.top)
	}
	return by, f.live.problem()
}

// sumsFor returns the sums that tables require.
func sumsFor(by []allocs.Dimension) loupe.AllocsBy {
	var sums loupe.AllocsBy
	for _, d := range by {
		if d.NeedsGoroutines() {
			sums |= loupe.AllocsByGoroutine
		} else {
			sums |= loupe.AllocsByPlace
		}
	}
	return sums
}

// allocs prints what the target of a session allocates until the session ends.
func (a *app) allocs(ctx context.Context, s session, flags *allocFlags, by []allocs.Dimension) error {
	stop := sync.OnceFunc(a.progress(fmt.Sprintf("counting the allocations of process %d", s.PID())).Stop)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range s.Events() { // stacks arrive with them
		}
	}()
	defer func() { <-ended }()
	defer s.Close()
	var ticks <-chan time.Time
	if flags.interval > 0 {
		ticker := time.NewTicker(flags.interval)
		defer ticker.Stop()
		ticks = ticker.C
	}
	before := &allocs.Counts{}
	for {
		select {
		case <-ticks:
			now, err := s.Allocs()
			if err != nil {
				return err
			}
			if before.Ended.IsZero() {
				before.Ended = now.Began
			}
			if err := a.writeAllocs(now.Since(before), flags, by); err != nil {
				return err
			}
			before = now
			continue
		case <-ended:
		}
		stop()
		s.Close() // for the final numbers; an error comes again when the session is ended
		total, err := s.Allocs()
		if err != nil {
			return err
		}
		a.tellUncounted(total)
		if ctx.Err() == nil {
			a.note("process %d has exited", s.PID())
		}
		return a.writeAllocs(total, flags, by)
	}
}

// tellUncounted reports allocations that were not counted.
func (a *app) tellUncounted(c *allocs.Counts) {
	switch {
	case c.Lost > 0 && c.Rate > 0:
		fmt.Fprintf(a.Stderr, "loupe: %s of allocations were lost: the estimates are too low\n", english.Count(c.Lost, "sample"))
	case c.Lost > 0:
		fmt.Fprintf(a.Stderr, "loupe: at most %s were not counted: probes interrupted each other\n", english.Count(c.Lost, "allocation"))
	}
}

// writeAllocs prints allocations. With --interval and --json each is a line.
func (a *app) writeAllocs(c *allocs.Counts, flags *allocFlags, by []allocs.Dimension) error {
	r := report.Allocs{Counts: c, By: by, Top: flags.top}
	if a.json {
		return r.JSON(a.Stdout, flags.interval > 0)
	}
	if err := r.Text(a.Stdout, a.style(), term.Width(a.Stdout)); err != nil || flags.interval == 0 {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout)
	return err
}
