package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/internal/term"
)

// traceFlags are the flags of loupe trace.
type traceFlags struct {
	live       liveFlags
	kinds      kindsFlag
	every      time.Duration // Options.MemoryInterval
	minBlock   time.Duration
	goroutines []string
	system     bool
	sample     int
	reasons    []string
	function   string
}

func (a *app) traceCommand() *cobra.Command {
	flags := traceFlags{kinds: kindsFlag{names: "default", kinds: event.KindsDefault}}
	cmd := &cobra.Command{
		Use:                   "trace [flags] TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Print live events, then a summary",
		Long: `Print the events of the goroutines of a running Go program as they happen: which
goroutines are created and by whom, what they wait for and how long, who wakes
them, when they run and end. Also print the events of the garbage collector. The
program needs no change and no restart.

The goroutines that are alive at the start come first, as GoStatus. Events that
the runtime itself causes, such as a timer that sends on its channel, name no
goroutine.

Events that do not fit into the buffer are lost, counted and reported. Fewer
--kinds, --min-block, --stack 0, --sample and a larger --buffer reduce the loss.
Events excluded by --kinds, --g, --min-block, --sample and --system cost the
program nothing. --reason and --func only filter the output.

` + kindsHelp() + `
` + liveTargetHelp,
		Example: `  loupe trace 1234
  loupe trace orders --duration 10s --min-block 100ms --reason "chan send"
  loupe trace orders --kinds GoCreate,GoDestroy --func 'orders\.handle'
  loupe trace orders --json | jq 'select(.kind == "GoBlock") | .reason'
  loupe trace --json -- ./orders -port 8080 > events.json`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	addEngine(&flags.live.engine, cmd, "")
	flags.live.add(cmd, 0)
	f := cmd.Flags()
	f.Var(&flags.kinds, "kinds", "observe these `KINDS` of events: names and groups, separated by commas")
	addMemoryInterval(f, &flags.every)
	f.DurationVar(&flags.minBlock, "min-block", 0, "only waits of at least this time, printed when they end, without GoStart and GoStop")
	f.StringSliceVar(&flags.goroutines, "g", nil, "only the goroutines with these `IDS`, separated by commas")
	f.BoolVar(&flags.system, "system", false, "include goroutines of the Go runtime")
	f.IntVar(&flags.sample, "sample", 1, "only one goroutine in `N`, with all of its events")
	f.StringArrayVar(&flags.reasons, "reason", nil, "print only waits whose reason contains `TEXT`, and their ends; repeatable, any may match")
	f.StringVar(&flags.function, "func", "", "print only events with a function on their stack, or a function that they start, that matches `REGEXP`")
	cmd.RegisterFlagCompletionFunc("kinds", completeKinds)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opt, filter, err := flags.options(a)
		if err != nil {
			return &usageError{problem: err.Error(), command: cmd.CommandPath()}
		}
		return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
			return a.trace(ctx, s, opt.Kinds, filter)
		})
	}
	return cmd
}

// options are the flags as package loupe wants them, and the filter for what the engine does not choose.
func (f *traceFlags) options(a *app) (loupe.Options, stream.Filter, error) {
	filter := stream.Filter{Kinds: f.kinds.kinds, Reasons: f.reasons}
	opt := f.live.options(a)
	opt.Kinds, opt.MinBlock, opt.System, opt.SampleOneIn, opt.MemoryInterval = f.kinds.kinds, f.minBlock, f.system, f.sample, f.every
	switch problem := cmp.Or(f.live.problem(), memoryIntervalProblem(f.every)); {
	case problem != "":
		return opt, filter, errors.New(problem)
	case f.minBlock < 0:
		return opt, filter, fmt.Errorf("--min-block %v is negative", f.minBlock)
	case f.sample < 1:
		return opt, filter, fmt.Errorf("--sample %d is less than 1; 1 observes every goroutine", f.sample)
	}
	for _, text := range f.goroutines {
		id, err := parseCount(text)
		if err != nil || id == 0 {
			return opt, filter, fmt.Errorf("--g %q is not a goroutine ID", text)
		}
		opt.Goroutines = append(opt.Goroutines, id)
	}
	var err error
	if filter.Func, err = optionalRegexp(f.function); err != nil {
		return opt, filter, fmt.Errorf("--func: %w", err)
	}
	return opt, filter, nil
}

// trace writes the events of a session, and the summary.
func (a *app) trace(ctx context.Context, s session, kinds event.Kinds, filter stream.Filter) error {
	var encoder report.EventEncoder = report.NewEventText(a.style(), kinds)
	if a.json {
		encoder = report.NewEventJSON()
	}
	if !term.IsTerminal(a.Stdout) {
		defer a.progress(fmt.Sprintf("tracing process %d", s.PID())).Stop()
	}
	sum, err := a.writeEvents(ctx, s, kinds, filter, encoder)
	if err != nil {
		return err
	}
	if ctx.Err() == nil {
		a.note("process %d has exited", s.PID())
	}
	if a.json {
		return sum.JSON(a.Stdout)
	}
	return sum.Text(a.Stdout, a.style())
}

// writeEvents writes the events of a session until they end. A line on stderr tells of loss.
func (a *app) writeEvents(ctx context.Context, s session, kinds event.Kinds, filter stream.Filter, encoder report.EventEncoder) (*report.EventSummary, error) {
	elapsed := stopwatch(ctx)
	sum := &report.EventSummary{Kinds: kinds}
	tally := stream.NewTally(kinds)
	// A program that reads the events can tell intervals itself.
	follow := !a.json || len(filter.Reasons) > 0
	transitions, selector := stream.NewTransitions(kinds), filter.Select()
	w := report.NewEventWriter(a.Stdout, encoder)
	ended, marks := &stream.Interval{}, uint64(0)
	for e := range s.Events() {
		if e.Kind != event.Lost { // a mark, not an event
			sum.Events++
		}
		tally.Add(e)
		if follow {
			ended = transitions.Next(e)
		}
		if !selector.Wants(e, ended) {
			continue
		}
		if e.Kind == event.Lost {
			marks++
		} else {
			sum.Shown++
		}
		if w.Write(e, ended) != nil {
			break // Close says why
		}
	}
	sum.Elapsed = elapsed()
	sum.Goroutines, sum.Uncertain = a.aliveNow(s, tally)
	err := w.Close()
	s.Close() // for the final numbers; an error comes again when the session is ended
	stats := s.Stats()
	if errors.Is(err, output.ErrBlocked) {
		err = fmt.Errorf("%w: %s and the summary were not written", err, english.Count(sum.Shown+marks-w.Written()+unread(stats), "event"))
	}
	sum.Lost, sum.Unreadable, sum.LostByKind = stats.Lost, stats.Unreadable, lostByKind(stats)
	sum.TimeErrorP99, sum.TimeErrorMax = stats.TimeError.P99, stats.TimeError.Max
	sum.Created, sum.Ended = tally.Created, tally.Ended
	a.tellLoss(stats)
	return sum, err
}

// aliveNow returns how many observed goroutines are alive. When events were lost they are counted in the target; the number
// is uncertain when that has ended.
func (a *app) aliveNow(s session, tally *stream.Tally) (n int, uncertain bool) {
	if s.Stats().Lost == 0 {
		return tally.Alive(), false
	}
	ids, err := s.Observed()
	if err != nil {
		a.log().Debug("goroutines could not be counted after a loss of events", "err", err)
		return tally.Alive(), true
	}
	return len(ids), false
}

// unread returns how many events were left in the buffer.
func unread(stats event.Stats) uint64 {
	n := uint64(0)
	for _, c := range stats.Kinds {
		if done := c.Received + c.Lost; c.Produced > done {
			n += c.Produced - done
		}
	}
	return n
}

// tellLoss tells the user what was lost, with --quiet too.
func (a *app) tellLoss(stats event.Stats) {
	if full := stats.Lost - stats.Unreadable; full > 0 {
		fmt.Fprintf(a.Stderr, "loupe: %s: the buffer was full; increase --buffer or select fewer events\n",
			report.LossWords(full, countsByKind(stats, func(c event.Counts) uint64 { return c.Lost - c.Unreadable })))
	}
	if stats.Unreadable > 0 {
		fmt.Fprintf(a.Stderr, "loupe: %s: could not read the target's memory; a larger --buffer does not help\n",
			report.LossWords(stats.Unreadable, countsByKind(stats, func(c event.Counts) uint64 { return c.Unreadable })))
	}
	if stats.Err != nil {
		fmt.Fprintf(a.Stderr, "loupe: more events may have been lost: %s\n", term.Escape(stats.Err.Error()))
	}
}

// lostByKind returns what was lost of each kind.
func lostByKind(stats event.Stats) map[event.Kind]uint64 {
	return countsByKind(stats, func(c event.Counts) uint64 { return c.Lost })
}

// countsByKind returns one of the counts of each kind that has some.
func countsByKind(stats event.Stats, count func(event.Counts) uint64) map[event.Kind]uint64 {
	counts := map[event.Kind]uint64{}
	for kind, c := range stats.Kinds {
		if n := count(c); n > 0 {
			counts[kind] = n
		}
	}
	return counts
}

// parseCount reads a number that cannot be negative.
func parseCount(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
