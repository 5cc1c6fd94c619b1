package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/tracefile"
)

// formatHelp explains the formats of verbs that write events.
const formatHelp = `FORMAT is one of
  go        a Go execution trace: go tool trace FILE, gotraceui
  text      the same as text, every event a line
  perfetto  for ui.perfetto.dev and its trace processor
  chrome    JSON, for chrome://tracing and ui.perfetto.dev
  pprof     a profile, of what --type says: go tool pprof FILE
  csv       a line for each event: time (nanoseconds since the Unix epoch, or
            since the beginning of a trace that does not tell the time of day),
            kind, g, parent, by, reason, thread, p, function, file, line, value,
            and more in the columns after it

TYPE of a profile is one of
  block      how often and how long goroutines waited for channels, locks and
             others in package sync, by the stack that waited; --reason chooses
             other waits
  mutex      how long goroutines waited for locks, by the stack that unlocked
  sched      how long goroutines that could run waited for a processor
  create     goroutines created, by the stack that creates them
  goroutine  goroutines alive at the end, by the stack where they were last
  cpu        samples of the CPU profiler, if one was under way`

// sinkFlags are the flags of verbs that write events.
type sinkFlags struct {
	outputFlags
	format  string
	profile string
	threads bool
}

func (f *sinkFlags) add(cmd *cobra.Command, format string) {
	f.outputFlags.add(cmd, "")
	formats := wordsOf(tracefile.Formats())
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", format, "write this `FORMAT`: "+strings.Join(formats, ", "))
	flags.StringVar(&f.profile, "type", "", "pprof: `TYPE` of the profile: "+strings.Join(tracefile.ProfileTypes(), ", "))
	flags.BoolVar(&f.threads, "threads", false, "perfetto, chrome: a track for each thread too")
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(tracefile.ProfileTypes(), cobra.ShellCompDirectiveNoFileComp))
}

// options are the flags as package tracefile wants them.
func (f *sinkFlags) options(path string) (tracefile.SinkOptions, error) {
	opt := tracefile.SinkOptions{Format: tracefile.Format(f.format), Threads: f.threads, Profile: f.profile, Process: filepath.Base(path)}
	if path == tracefile.Stdin {
		opt.Process = ""
	}
	f.binary = opt.Format.Binary()
	pprof := opt.Format == tracefile.Pprof
	timeline := opt.Format == tracefile.Perfetto || opt.Format == tracefile.Chrome
	switch {
	case f.format == "":
		return opt, fmt.Errorf("missing --format %s", strings.Join(wordsOf(tracefile.Formats()), "|"))
	case !slices.Contains(tracefile.Formats(), opt.Format):
		return opt, fmt.Errorf("unknown format %q: must be one of %s", f.format, strings.Join(wordsOf(tracefile.Formats()), ", "))
	case pprof && f.profile == "":
		return opt, fmt.Errorf("missing --type %s", strings.Join(tracefile.ProfileTypes(), "|"))
	case pprof && !slices.Contains(tracefile.ProfileTypes(), f.profile):
		return opt, fmt.Errorf("unknown profile type %q: must be one of %s", f.profile, strings.Join(tracefile.ProfileTypes(), ", "))
	case !pprof && f.profile != "":
		return opt, errors.New("--type requires --format pprof")
	case f.threads && !timeline:
		return opt, errors.New("--threads requires --format perfetto or chrome")
	}
	return opt, nil
}

func (a *app) tracefileConvertCommand() *cobra.Command {
	var flags sinkFlags
	var reasons []string
	cmd := &cobra.Command{
		Use:                   "convert [flags] FILE -o FILE --format FORMAT",
		DisableFlagsInUseLine: true,
		Short:                 "A trace for other viewers, as a profile, as a table, or in a newer format",
		Long: `Write a trace in another form.

` + formatHelp + `

With --format go a trace of before Go 1.22 gets a newer format, which more tools
read; one that is damaged becomes whole with --partial.`,
		Example: `  loupe tracefile convert app.trace -o app.pftrace --format perfetto
  loupe tracefile convert app.trace -o block.pb.gz --format pprof --type block
  loupe tracefile convert app.trace -o - --format csv | sqlite3 app.db '.import --csv /dev/stdin event'
  loupe tracefile convert old.trace -o new.trace --format go
  loupe tracefile convert --partial crashed.trace -o readable.trace --format go`,
		Args:              oneFile,
		ValidArgsFunction: completeFiles,
	}
	flags.add(cmd, "")
	cmd.Flags().StringArrayVar(&reasons, "reason", nil, "pprof block, mutex: count waits whose reason contains `TEXT` instead; repeatable, any may fit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opt, err := flags.options(args[0])
		opt.Reasons = reasons
		if err == nil && len(reasons) > 0 && (opt.Format != tracefile.Pprof || !tracefile.HasReasons(opt.Profile)) {
			err = errors.New("--reason requires --type block or mutex; loupe tracefile filter selects goroutines by reason")
		}
		if err != nil {
			return &usageError{problem: err.Error(), command: cmd.CommandPath()}
		}
		return a.convert(cmd, &flags, args[0], opt, &tracefile.Selection{})
	}
	return cmd
}

// convert writes the events of a file that a selection chooses.
func (a *app) convert(cmd *cobra.Command, flags *sinkFlags, path string, opt tracefile.SinkOptions, sel *tracefile.Selection) error {
	return a.writeFrom(cmd, &flags.outputFlags, path, func(ctx context.Context, out *tracefile.Output, in *tracefile.Input) (writtenJSON, error) {
		done, err := tracefile.Convert(ctx, out, in, opt, sel)
		return convertedJSON(opt.Format, &done), err
	})
}

// convertedJSON tells what was written of events.
func convertedJSON(format tracefile.Format, done *tracefile.Converted) writtenJSON {
	length := int64(done.Length())
	doc := writtenJSON{Format: string(format), GoFormat: done.Version.String(), Read: done.Read, Events: done.Written, Nanoseconds: &length,
		Notes: done.Notes}
	if done.Wall && done.Written > 0 {
		doc.Begin = time.Unix(0, done.First).UTC().Format(time.RFC3339Nano)
	}
	return doc
}

// filterFlags are the flags of loupe tracefile filter.
type filterFlags struct {
	sinkFlags
	goroutines []string
	from, to   string
	function   string
	reasons    []string
}

func (a *app) tracefileFilterCommand() *cobra.Command {
	var flags filterFlags
	cmd := &cobra.Command{
		Use:                   "filter [flags] FILE -o FILE",
		DisableFlagsInUseLine: true,
		Short:                 "A part of a trace: some goroutines, some time",
		Long: `Write a part of a trace: what happens to some goroutines, and in some time.
Goroutines are chosen as a whole, so that what is written is a trace again: with
--func those that have a function on one of their stacks, or start with it, and
with --reason those that wait for it once. What is about the whole program, such
as garbage collections, is always there. What each goroutine is doing when the
time begins is told by events GoStatus.

T is a duration since the beginning of the trace, such as 1.5s, or a time such
as 2026-03-01T14:03:05.25Z if the trace tells it, as those of Go 1.25 and later
do.

` + formatHelp,
		Example: `  loupe tracefile filter app.trace -o second.trace --from 1s --to 2s
  loupe tracefile filter app.trace -o workers.trace --func 'main\.worker'
  loupe tracefile filter app.trace -o locks.pftrace --format perfetto --reason sync.Mutex.Lock
  loupe tracefile filter app.trace -o - --format csv --g 18,42`,
		Args:              oneFile,
		ValidArgsFunction: completeFiles,
	}
	flags.add(cmd, string(tracefile.Go))
	f := cmd.Flags()
	f.StringSliceVar(&flags.goroutines, "g", nil, "only the goroutines with these `IDS`, separated by commas")
	f.StringVar(&flags.from, "from", "", "only what happens from `T` on")
	f.StringVar(&flags.to, "to", "", "only what happens until `T`")
	f.StringVar(&flags.function, "func", "", "only goroutines that start with a function that matches `REGEXP`, or have one on their stack in the time")
	f.StringArrayVar(&flags.reasons, "reason", nil, "only goroutines that wait in the time for a reason that contains `TEXT`; repeatable, any may fit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opt, err := flags.options(args[0])
		var sel *tracefile.Selection
		if err == nil {
			sel, err = flags.selection()
		}
		if err == nil && sel.All() {
			err = errors.New("missing filter: --g, --func, --reason, --from or --to; loupe tracefile convert writes the whole trace")
		}
		if err != nil {
			return &usageError{problem: err.Error(), command: cmd.CommandPath()}
		}
		return a.convert(cmd, &flags.sinkFlags, args[0], opt, sel)
	}
	return cmd
}

// selection is what the flags choose.
func (f *filterFlags) selection() (*tracefile.Selection, error) {
	sel := &tracefile.Selection{Reasons: f.reasons}
	for _, text := range f.goroutines {
		id, err := parseCount(text)
		if err != nil || id == 0 {
			return nil, fmt.Errorf("--g %q is not a goroutine ID", text)
		}
		sel.Goroutines = append(sel.Goroutines, id)
	}
	var err error
	if sel.Func, err = optionalRegexp(f.function); err != nil {
		return nil, fmt.Errorf("--func: %w", err)
	}
	if sel.From, err = tracefile.ParseMoment(f.from); err != nil {
		return nil, fmt.Errorf("--from %s is %w", f.from, err)
	}
	if sel.To, err = tracefile.ParseMoment(f.to); err != nil {
		return nil, fmt.Errorf("--to %s is %w", f.to, err)
	}
	return sel, nil
}
