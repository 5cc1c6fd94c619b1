package cli

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/record"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/trace/raw"
)

// recordFlags are the flags of loupe record.
type recordFlags struct {
	live   liveFlags
	output string
	format string
	kinds  kindsFlag
	system bool
	last   time.Duration
	memory byteSize
	when   record.Conditions
	after  time.Duration
}

// flightMemory is how much memory a flight recorder takes unless it is told otherwise.
const flightMemory = 256 << 20

func (a *app) recordCommand() *cobra.Command {
	flags := recordFlags{kinds: kindsFlag{names: "default", kinds: event.KindsDefault}, memory: flightMemory}
	cmd := &cobra.Command{
		Use:                   "record [flags] -o FILE TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Record a Go execution trace of a running program",
		Long: `Record what the goroutines of a running Go program do, as runtime/trace does
inside a program, and write it to FILE for "go tool trace" and other viewers.
The program needs no trace endpoint, no change and no restart.

FORMAT is one of
  go        Go execution trace (the default), for go tool trace and gotraceui,
            in the format of the program's Go release, or of Go 1.23 for
            programs built by releases before Go 1.22
  text      the same trace as text, one event per line; "loupe tracefile wire"
            converts it back
  perfetto  for ui.perfetto.dev and its trace processor
  chrome    JSON, for chrome://tracing and ui.perfetto.dev

Until the recording is complete the file is named FILE.partial-PID. It is then
renamed to FILE, also after Ctrl-C. If Loupe is killed the partial file remains.
Only the owner can read the file. If FILE is a pipe it must have a reader. A
symbolic link is refused.

--kinds default,syscall adds system calls. Events that the trace format does not
have (--kinds chan,lock) are written as messages.

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
  loupe record orders -o orders.trace --kinds default,syscall
  loupe record orders -o orders.pftrace --format perfetto --duration 5s
  loupe record orders -o slow.trace --last 30s --when-blocked 500ms
  loupe record -o start.trace -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	addEngine(&flags.live.engine, cmd, "")
	flags.live.add(cmd, 0)
	f := cmd.Flags()
	f.StringVarP(&flags.output, "output", "o", "", "write to `FILE`; - is stdout")
	f.StringVar(&flags.format, "format", string(record.Go), "write this `FORMAT`: go, text, perfetto, chrome")
	f.Var(&flags.kinds, "kinds", "record these `KINDS` of events, separated by commas (loupe trace --help lists them)")
	f.BoolVar(&flags.system, "system", false, "include goroutines of the Go runtime")
	f.DurationVar(&flags.last, "last", 0, "keep only the newest events, up to this age; write them at the end, on SIGUSR1, or when a condition is met")
	f.Var(&flags.memory, "memory", "with --last: use at most `SIZE` of memory for events")
	f.DurationVar(&flags.after, "after", time.Second, "with --last: continue for this time after a condition is met")
	f.DurationVar(&flags.when.Blocked, "when-blocked", 0, "with --last: stop when a goroutine is blocked for longer than this")
	f.IntVar(&flags.when.Goroutines, "when-goroutines", 0, "with --last: stop when there are more than `N` goroutines")
	f.DurationVar(&flags.when.Latency, "when-latency", 0, "with --last: stop when a runnable goroutine does not run for longer than this")
	f.StringArrayVar(&flags.when.Reasons, "reason", nil, "with --when-blocked: waits whose reason contains `TEXT` instead of the default reasons; repeatable, any may match")
	cmd.RegisterFlagCompletionFunc("kinds", completeKinds)
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := flags.check()
		if err != nil {
			return &usageError{problem: err.Error(), command: cmd.CommandPath()}
		}
		out, err := a.create(cmd.Context(), flags.output)
		if err != nil {
			return err
		}
		defer out.Discard()
		opt := flags.live.options(a)
		opt.Kinds, opt.System, opt.Procs = flags.kinds.kinds, flags.system, true
		return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
			return a.record(ctx, s, format, &flags, out)
		})
	}
	return cmd
}

func formatNames() []string {
	var names []string
	for _, f := range record.Formats {
		names = append(names, string(f))
	}
	return names
}

// check returns the format, or what is wrong with the flags.
func (f *recordFlags) check() (record.Format, error) {
	format, err := record.ParseFormat(f.format)
	if err != nil {
		return "", fmt.Errorf("--format: %w", err)
	}
	switch problem := f.live.problem(); {
	case problem != "":
		return "", errors.New(problem)
	case f.output == "":
		return "", errors.New("missing -o FILE (-o - writes to stdout)")
	case f.last < 0 || f.when.Blocked < 0 || f.when.Latency < 0 || f.when.Goroutines < 0 || f.after < 0:
		return "", errors.New("--last, --after and the --when conditions must not be negative")
	case f.last == 0 && f.when.Any():
		return "", errors.New("the --when conditions require --last")
	case len(f.when.Reasons) > 0 && f.when.Blocked == 0:
		return "", errors.New("--reason requires --when-blocked")
	case f.last > 0 && f.output == "-":
		return "", errors.New("--last cannot write to stdout: use -o FILE")
	}
	if missing := needs(&f.when).Without(f.kinds.kinds); !missing.IsEmpty() {
		return "", fmt.Errorf("the --when conditions require --kinds with %s", missing)
	}
	return format, nil
}

// needs returns the kinds that conditions are found by.
func needs(c *record.Conditions) event.Kinds {
	if c.Any() {
		return event.KindsGoroutine
	}
	return event.Kinds{}
}

// recordJSON tells programs what was written.
type recordJSON struct {
	File       string  `json:"file"`
	Format     string  `json:"format"`
	Seconds    float64 `json:"seconds"` // that the file covers
	Events     uint64  `json:"events"`  // observed, in all
	Lost       uint64  `json:"lost"`
	Goroutines int     `json:"goroutines"` // that the file has
	Alive      int     `json:"alive"`      // of them: at the end
	Bytes      int64   `json:"bytes"`
	Why        string  `json:"why,omitempty"` // the condition that was met
}

// record writes the events of a session.
func (a *app) record(ctx context.Context, s session, format record.Format, flags *recordFlags, out *output.File) error {
	defer context.AfterFunc(ctx, out.End)()
	opt := record.Options{Process: processName(s.PID()), Kinds: flags.kinds.kinds, Version: traceVersion(s.PID())}
	if usage, err := s.Usage(); err == nil {
		opt.Procs = usage.Procs
	}
	if flags.last > 0 {
		return a.recordLast(ctx, s, format, flags, opt, out)
	}
	sink, err := record.NewSink(out, format, opt)
	if err != nil {
		return err
	}
	elapsed, done := stopwatch(ctx), recordJSON{File: flags.output, Format: string(format)}
	progress := a.progress(fmt.Sprintf("recording process %d", s.PID()))
	tally := stream.NewTally(opt.Kinds)
	for e := range s.Events() {
		done.Events++
		tally.Add(e)
		if err = sink.Write(e); err != nil {
			break
		}
	}
	progress.Stop()
	done.Seconds = elapsed().Seconds()
	if closeErr := sink.Close(); err == nil {
		err = closeErr
	}
	if err = finish(out, err); err != nil {
		return err
	}
	done.Bytes = out.Bytes()
	done.Goroutines, done.Alive = record.Goroutines(sink, tally)
	return a.recorded(s, &done)
}

// recorded tells what was written.
func (a *app) recorded(s session, done *recordJSON) error {
	s.Close() // for the final numbers; an error comes again when the session is ended
	stats := s.Stats()
	done.Lost = stats.Lost
	a.tellLoss(stats)
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
	a.note("wrote %s of events (%s, %s alive at the end) to %s, %s; view with: %s", covered, english.Count(done.Goroutines, "goroutine"), english.Number(done.Alive), done.File, english.Size(done.Bytes),
		record.Format(done.Format).Viewer(done.File))
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

// traceVersion returns the format of a recording of a process; 0 when its release is not known.
func traceVersion(pid int) raw.Version {
	info, err := buildinfo.ReadFile(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return 0
	}
	return record.VersionFor(info.GoVersion)
}

// processName is what a process is called.
func processName(pid int) string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return strings.TrimSuffix(filepath.Base(exe), " (deleted)")
}
