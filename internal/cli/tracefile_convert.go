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

	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/tracefile"
)

// formatHelp explains the formats of verbs that write events.
func formatHelp() string {
	return export.Formats().For(export.Convert).Help() + `
TYPE of a profile is one of
  block      how often and how long goroutines waited for channels, locks and
             other types of package sync, by the stack that waited; --reason
             selects other waits
  mutex      how long goroutines waited for locks, by the stack that unlocked
  sched      how long runnable goroutines waited for a processor
  create     goroutines created, by the stack that created them
  goroutine  goroutines alive at the end, by their last stack
  cpu        samples of the CPU profiler, if it was running`
}

// sinkFlags are the flags of verbs that write events.
type sinkFlags struct {
	outputFlags
	format  string
	profile string
	threads bool
}

func (f *sinkFlags) add(cmd *cobra.Command, format string) {
	f.outputFlags.add(cmd, "")
	addFormat(cmd, &f.format, export.Formats().For(export.Convert), format)
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "type", "", "pprof: `TYPE` of the profile: "+strings.Join(export.ProfileTypes(), ", "))
	flags.BoolVar(&f.threads, "threads", false, timelines(", ")+": add one track per thread")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(export.ProfileTypes(), cobra.ShellCompDirectiveNoFileComp))
}

// options are the flags as package tracefile wants them.
func (f *sinkFlags) options(path string) (tracefile.ConvertOptions, error) {
	opt := tracefile.ConvertOptions{Options: export.Options{Threads: f.threads, Profile: f.profile, Process: filepath.Base(path)}}
	if path == tracefile.Stdin {
		opt.Process = ""
	}
	formats, types := export.Formats().For(export.Convert), export.ProfileTypes()
	if f.format == "" {
		return opt, fmt.Errorf("missing --format %s", strings.Join(formats.Names(), "|"))
	}
	var err error
	if opt.Format, err = formats.Find(f.format); err != nil {
		return opt, err
	}
	f.binary = opt.Format.Binary
	pprof := f.format == export.Pprof
	switch {
	case pprof && f.profile == "":
		return opt, fmt.Errorf("missing --type %s", strings.Join(types, "|"))
	case pprof && !slices.Contains(types, f.profile):
		return opt, fmt.Errorf("unknown profile type %q: must be one of %s", f.profile, strings.Join(types, ", "))
	case !pprof && f.profile != "":
		return opt, errors.New("--type requires --format pprof")
	case f.threads && !opt.Format.Timeline:
		return opt, fmt.Errorf("--threads requires --format %s", timelines(" or "))
	}
	return opt, nil
}

func (a *app) tracefileConvertCommand() *cobra.Command {
	var flags sinkFlags
	var reasons []string
	cmd := &cobra.Command{
		Use:                   "convert [flags] FILE -o FILE --format FORMAT",
		DisableFlagsInUseLine: true,
		Short:                 "Convert a trace to another format",
		Long: `Convert a trace to another format.

` + formatHelp() + `

--format go converts a trace of a release before Go 1.22 to a newer format,
which more tools support. With --partial it writes the part of a damaged trace
before the damage as a valid trace.`,
		Example: `  loupe tracefile convert app.trace -o app.pftrace --format perfetto
  loupe tracefile convert app.trace -o block.pb.gz --format pprof --type block
  loupe tracefile convert app.trace -o - --format csv | sqlite3 app.db '.import --csv /dev/stdin event'
  loupe tracefile convert old.trace -o new.trace --format go
  loupe tracefile convert --partial crashed.trace -o readable.trace --format go`,
		Args:              oneFile,
		ValidArgsFunction: completeFiles,
	}
	flags.add(cmd, "")
	cmd.Flags().StringArrayVar(&reasons, "reason", nil, "pprof block, mutex: count waits whose reason contains `TEXT` instead of the default reasons; repeatable, any may match")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opt, err := flags.options(args[0])
		opt.Reasons = reasons
		if err == nil && len(reasons) > 0 && (flags.format != export.Pprof || !export.HasReasons(opt.Profile)) {
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
func (a *app) convert(cmd *cobra.Command, flags *sinkFlags, path string, opt tracefile.ConvertOptions, sel *tracefile.Selection) error {
	return a.writeFrom(cmd, &flags.outputFlags, path, func(ctx context.Context, out *tracefile.Output, in *tracefile.Input) (writtenJSON, error) {
		done, err := tracefile.Convert(ctx, out, in, opt, sel)
		return convertedJSON(opt.Format.Name, &done), err
	})
}

// convertedJSON tells what was written of events.
func convertedJSON(format string, done *tracefile.Converted) writtenJSON {
	length := int64(done.Length())
	doc := writtenJSON{Format: format, GoFormat: done.Version.String(), Read: done.Read, Events: done.Written, Nanoseconds: &length,
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
		Short:                 "Write a part of a trace: selected goroutines or a time range",
		Long: `Write a part of a trace: selected goroutines, a time range, or both. The filter
selects whole goroutines, so that the output is a valid trace. --func selects
goroutines with a matching function on one of their stacks, or that start with
one. --reason selects goroutines that wait at least once for a matching reason.
Events of the whole program, such as garbage collections, are always included.
GoStatus events give the state of each goroutine at the start of the range.

T is a duration since the start of the trace, such as 1.5s, or a time such as
2026-03-01T14:03:05.25Z if the trace has the time of day, as traces of Go 1.25
and later do.

` + formatHelp(),
		Example: `  loupe tracefile filter app.trace -o second.trace --from 1s --to 2s
  loupe tracefile filter app.trace -o workers.trace --func 'main\.worker'
  loupe tracefile filter app.trace -o locks.pftrace --format perfetto --reason sync.Mutex.Lock
  loupe tracefile filter app.trace -o - --format csv --g 18,42`,
		Args:              oneFile,
		ValidArgsFunction: completeFiles,
	}
	flags.add(cmd, export.Go)
	f := cmd.Flags()
	f.StringSliceVar(&flags.goroutines, "g", nil, "only the goroutines with these `IDS`, separated by commas")
	f.StringVar(&flags.from, "from", "", "only events at or after `T`")
	f.StringVar(&flags.to, "to", "", "only events at or before `T`")
	f.StringVar(&flags.function, "func", "", "only goroutines that start with a function that matches `REGEXP`, or have one on their stack in the time range")
	f.StringArrayVar(&flags.reasons, "reason", nil, "only goroutines that wait in the time range for a reason that contains `TEXT`; repeatable, any may match")
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
