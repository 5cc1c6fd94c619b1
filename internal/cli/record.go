package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
)

// recordFlags are the flags of loupe record.
type recordFlags struct {
	live   liveFlags
	output string
	format string
	kinds  kindsFlag
	every  time.Duration // Options.MemoryInterval
	system bool
	spans  bool
	allocs bool
	last   time.Duration
	memory byteSize
	when   loupe.Conditions
	after  time.Duration
}

func (a *app) recordCommand() *cobra.Command {
	formats := export.Formats().For(export.Record)
	flags := recordFlags{kinds: kindsFlag{names: "default,memory", kinds: event.KindsDefault.Union(event.KindsMemory)}, memory: loupe.DefaultFlightBytes}
	cmd := &cobra.Command{
		Use:                   "record [flags] -o FILE TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Record a Go execution trace of a running program",
		Long: `Record what the goroutines of a running Go program do, as runtime/trace does
inside a program, and write it to FILE for "go tool trace" and other viewers.
The program needs no trace endpoint, no change and no restart.

` + formats.Help() + `
The default is go, in the format of the program's Go release, or of Go 1.23 for
programs built by releases before Go 1.22. "loupe tracefile wire" converts text
to it.

Until the recording is complete the file is named FILE.partial-PID. It is then
renamed to FILE, also after Ctrl-C. If Loupe is killed the partial file remains.
Only the owner can read the file. If FILE is a pipe it must have a reader. A
symbolic link is refused.

The heap size, the heap goal, and the bytes and objects allocated since the
program started are sampled every --memory-interval, from the memory of the
program and at no cost to it. Timelines show them as counters. --kinds default
leaves them out, except the heap size at each garbage collection.

--spans adds the requests that the program serves and sends, as tasks and
regions of runtime/trace: "go tool trace" lists them as user-defined tasks and
regions, timelines draw them. A task has the name of the span of the request
("loupe spans --help" lists the supported libraries), and messages with its
trace ID, its span ID and its status. --allocs adds a message with the bytes and
objects that the request has allocated, which each allocation of the program
costs time: some nanoseconds with engine inline, which "auto" then prefers, and
1 µs or more with engine uprobe.

--kinds default,memory,syscall adds system calls. Events that the trace format
does not have (--kinds chan,lock, and the allocation counters) are written as
messages.

With --last only the newest events are kept, in memory. They are written to FILE
when the recording ends: on Ctrl-C, when the program exits, after --duration, or
when a condition is met. On SIGUSR1 they are written to a numbered file, and the
recording continues. The conditions are
  --when-blocked      a goroutine has waited longer than this for a lock, to
                      send on a channel, or to assist the garbage collector;
                      --reason selects other waits
  --when-goroutines   there are more goroutines than this
  --when-latency      a runnable goroutine has waited longer than this to run
After a condition is met the recording continues for --after, so that the file
contains the end of the wait. A message names the goroutine and the place. If
the events need more than --memory, the oldest are dropped, and a message
reports the time that the file covers.

` + liveTargetHelp,
		Example: `  loupe record 1234 -o orders.trace --duration 10s && go tool trace orders.trace
  loupe record orders -o orders.trace --kinds default,memory,syscall
  loupe record orders -o orders.pftrace --format perfetto --duration 5s
  loupe record orders -o orders.trace --spans --duration 10s
  loupe record orders -o slow.trace --last 30s --when-blocked 500ms
  loupe record -o start.trace -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	addEngine(&flags.live.engine, cmd, "")
	flags.live.add(cmd, 0)
	f := cmd.Flags()
	f.StringVarP(&flags.output, "output", "o", "", "write to `FILE`; - is stdout")
	addFormat(cmd, &flags.format, formats, export.Go)
	f.Var(&flags.kinds, "kinds", "record these `KINDS` of events, separated by commas (loupe trace --help lists them)")
	addMemoryInterval(f, &flags.every)
	f.BoolVar(&flags.system, "system", false, "include goroutines of the Go runtime")
	f.BoolVar(&flags.spans, "spans", false, "add the requests that the program serves and sends, as tasks and regions")
	f.BoolVar(&flags.allocs, "allocs", false, "with --spans: also count what requests allocate")
	f.DurationVar(&flags.last, "last", 0, "keep only the newest events, up to this age; write them at the end, on SIGUSR1, or when a condition is met")
	f.Var(&flags.memory, "memory", "with --last: use at most `SIZE` of memory for events")
	f.DurationVar(&flags.after, "after", time.Second, "with --last: continue for this time after a condition is met")
	f.DurationVar(&flags.when.Blocked, "when-blocked", 0, "with --last: stop when a goroutine is blocked for longer than this")
	f.IntVar(&flags.when.Goroutines, "when-goroutines", 0, "with --last: stop when there are more than `N` goroutines")
	f.DurationVar(&flags.when.Latency, "when-latency", 0, "with --last: stop when a runnable goroutine does not run for longer than this")
	f.StringArrayVar(&flags.when.Reasons, "reason", nil, "with --when-blocked: waits whose reason contains `TEXT` instead of the default reasons; repeatable, any may match")
	cmd.RegisterFlagCompletionFunc("kinds", completeKinds)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := flags.check(formats)
		if err != nil {
			return &usageError{problem: err.Error(), command: cmd.CommandPath()}
		}
		out, err := a.create(cmd.Context(), flags.output)
		if err != nil {
			return err
		}
		defer out.Discard()
		opt := flags.live.options(a)
		opt.Kinds, opt.System, opt.Procs, opt.MemoryInterval = flags.kinds.kinds, flags.system, true, flags.every
		opt.Spans.Tasks, opt.Spans.Allocs = flags.spans, flags.allocs
		return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
			return a.record(ctx, s, format, &flags, out)
		})
	}
	return cmd
}

// check returns the format, or what is wrong with the flags.
func (f *recordFlags) check(formats export.Table) (*export.Format, error) {
	format, err := formats.Find(f.format)
	if err != nil {
		return nil, fmt.Errorf("--format: %w", err)
	}
	switch problem := cmp.Or(f.live.problem(), memoryIntervalProblem(f.every)); {
	case problem != "":
		return nil, errors.New(problem)
	case f.output == "":
		return nil, errors.New("missing -o FILE (-o - writes to stdout)")
	case f.last < 0 || f.when.Blocked < 0 || f.when.Latency < 0 || f.when.Goroutines < 0 || f.after < 0:
		return nil, errors.New("--last, --after and the --when conditions must not be negative")
	case f.last == 0 && f.when.Any():
		return nil, errors.New("the --when conditions require --last")
	case len(f.when.Reasons) > 0 && f.when.Blocked == 0:
		return nil, errors.New("--reason requires --when-blocked")
	case f.last > 0 && f.output == "-":
		return nil, errors.New("--last cannot write to stdout: use -o FILE")
	}
	if f.allocs && !f.spans {
		return nil, errors.New("--allocs requires --spans")
	}
	if missing := event.KindsGoroutine.Without(f.kinds.kinds); f.spans && !missing.IsEmpty() {
		return nil, fmt.Errorf("--spans requires --kinds with %s", missing)
	}
	if missing := f.when.Kinds().Without(f.kinds.kinds); !missing.IsEmpty() {
		return nil, fmt.Errorf("the --when conditions require --kinds with %s", missing)
	}
	return format, nil
}

// recordJSON tells programs what was written.
type recordJSON struct {
	File       string  `json:"file"`
	Format     string  `json:"format"`
	Seconds    float64 `json:"seconds"` // that the file covers
	Events     uint64  `json:"events"`  // observed, in all
	Lost       uint64  `json:"lost"`
	Goroutines int     `json:"goroutines"`      // that the file has
	Alive      int     `json:"alive"`           // of them: at the end
	Spans      uint64  `json:"spans,omitempty"` // observed, in all
	Bytes      int64   `json:"bytes"`
	Why        string  `json:"why,omitempty"` // the condition that was met
}

// record writes the events of a session.
func (a *app) record(ctx context.Context, s session, format *export.Format, flags *recordFlags, out *output.File) error {
	defer context.AfterFunc(ctx, out.End)()
	if flags.last > 0 {
		return a.recordLast(ctx, s, format, flags, out)
	}
	elapsed, done := stopwatch(ctx), recordJSON{File: flags.output, Format: format.Name}
	progress := a.progress(fmt.Sprintf("recording process %d", s.PID()))
	written, err := s.Record(out, loupe.RecordOptions{Format: loupe.Format(format.Name)})
	progress.Stop()
	done.Seconds = elapsed().Seconds()
	if err = finish(out, err); err != nil {
		return err
	}
	done.Bytes = out.Bytes()
	done.Events, done.Goroutines, done.Alive = written.Events, written.Goroutines, written.Alive
	return a.recorded(s, flags, &done)
}

// recorded tells what was written.
func (a *app) recorded(s session, flags *recordFlags, done *recordJSON) error {
	s.Close() // for the final numbers; an error comes again when the session is ended
	stats := s.Stats()
	done.Lost = stats.Lost
	a.tellLoss(stats)
	if flags.spans {
		counts, err := s.SpanCounts()
		if err != nil {
			return err
		}
		done.Spans = counts.Begun
		a.tellSpanLoss(&counts, false)
	}
	if done.File == "-" {
		return nil
	}
	if a.json {
		return report.WriteJSON(a.Stdout, done)
	}
	a.tellRecorded(done)
	return nil
}

func (a *app) tellRecorded(done *recordJSON) {
	covered := report.ShortTime(time.Duration(done.Seconds * float64(time.Second)))
	spans := ""
	if done.Spans > 0 {
		spans = ", " + english.Count(done.Spans, "span")
	}
	a.note("wrote %s of events (%s, %s alive at the end%s) to %s, %s%s", covered, english.Count(done.Goroutines, "goroutine"), english.Number(done.Alive), spans, done.File,
		english.Size(done.Bytes), viewer(done.Format, done.File))
}

// create begins an output file.
func (a *app) create(ctx context.Context, path string) (*output.File, error) {
	out, err := output.Create(ctx, path, output.Options{Stdout: a.Stdout, Owner: output.SudoUser(a.Getenv)})
	if err != nil {
		return nil, err
	}
	if name := out.Partial(); name != "" {
		a.state.partial.Store(&name)
	}
	if err := out.OwnerErr(); err != nil {
		a.note("note: %v", err)
	}
	return out, nil
}

// finish completes an output file, or discards it after an error. An error of the file comes before what became of it.
func finish(out *output.File, err error) error {
	if out.Err() != nil {
		err = out.Err()
	}
	if err != nil {
		out.Discard()
		return err
	}
	return out.Commit()
}
