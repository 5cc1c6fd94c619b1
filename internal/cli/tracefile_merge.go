package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/tracefile"
)

// mergeFlags are the flags of loupe tracefile merge.
type mergeFlags struct {
	outputFlags
	format  string
	to      *export.Format // that format names
	align   string
	names   []string
	threads bool
}

// mergeFormats returns the formats that traces are merged in.
func mergeFormats() export.Table { return export.Formats().For(export.Merge) }

func (a *app) tracefileMergeCommand() *cobra.Command {
	var flags mergeFlags
	cmd := &cobra.Command{
		Use:                   "merge [flags] FILE... -o FILE --format FORMAT",
		DisableFlagsInUseLine: true,
		Short:                 "Merge traces of several processes, or of one process at several times",
		Long: `Merge several traces into one.

--format perfetto and chrome merge traces of several processes. The viewer shows
each trace as a process. Traces do not contain process IDs, so the processes are
numbered 1, 2 and so on. If all traces have the time of day, as traces of Go
1.25 and later and recordings of Loupe do, they are aligned by it. Otherwise
they all start at the same moment. --align overrides this, and a note reports
which alignment was used.

--format go and text merge traces of one process, such as files of a flight
recorder, into one Go trace. The order of the files does not matter. Events that
are in several files are written once. A message of category "loupe" marks each
gap between two traces. These traces must be of Go 1.22 or later.`,
		Example: `  loupe tracefile merge client.trace server.trace -o both.pftrace --format perfetto
  loupe tracefile merge a.trace b.trace -o ab.json --format chrome --align begin --name old --name new
  loupe tracefile merge flight-*.trace -o flight.trace --format go`,
		Args:              someFiles,
		ValidArgsFunction: completeFiles,
	}
	flags.add(cmd, "")
	f := cmd.Flags()
	addFormat(cmd, &flags.format, mergeFormats(), "")
	aligns := []string{string(tracefile.AlignAuto), string(tracefile.AlignWall), string(tracefile.AlignBegin)}
	f.StringVar(&flags.align, "align", aligns[0], timelines(", ")+": `WAY` to align traces: "+strings.Join(aligns, ", "))
	f.StringArrayVar(&flags.names, "name", nil, timelines(", ")+": `NAME` of a process; repeat once per FILE, in the same order (default the file names)")
	f.BoolVar(&flags.threads, "threads", false, timelines(", ")+": add one track per thread")
	cmd.RegisterFlagCompletionFunc("align", cobra.FixedCompletions(aligns, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := flags.check(cmd, len(args))
		if err == nil && !slices.Contains(aligns, flags.align) {
			err = fmt.Errorf("--align %s: must be one of %s", flags.align, strings.Join(aligns, ", "))
		}
		if err != nil {
			return &usageError{problem: err.Error(), command: cmd.CommandPath()}
		}
		return a.tracefileMerge(cmd, &flags, args)
	}
	return cmd
}

// someFiles refuses less than two arguments.
func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return &usageError{problem: "expected at least two FILEs", command: cmd.CommandPath()}
	}
	return nil
}

// check returns what is wrong with the flags.
func (f *mergeFlags) check(cmd *cobra.Command, files int) error {
	formats := mergeFormats()
	if f.format == "" {
		return fmt.Errorf("missing --format %s", strings.Join(formats.Names(), "|"))
	}
	var err error
	if f.to, err = formats.Find(f.format); err != nil {
		return fmt.Errorf("cannot merge traces to format %q: must be one of %s", f.format, strings.Join(formats.Names(), ", "))
	}
	f.binary = f.to.Binary
	switch {
	case len(f.names) > 0 && len(f.names) != files:
		return fmt.Errorf("%s (--name) for %s", english.Count(len(f.names), "name"), english.Count(files, "file"))
	}
	for _, name := range []string{"align", "name", "threads"} {
		if cmd.Flags().Changed(name) && !f.to.Timeline {
			return fmt.Errorf("--%s requires --format %s", name, timelines(" or "))
		}
	}
	return nil
}

// tracefileMerge writes several traces as one.
func (a *app) tracefileMerge(cmd *cobra.Command, flags *mergeFlags, paths []string) error {
	if err := refuseAsOutput(cmd, paths, flags.path); err != nil {
		return err
	}
	return a.write(cmd, &flags.outputFlags, paths, func(ctx context.Context, out *tracefile.Output) (writtenJSON, error) {
		if !flags.to.Timeline {
			done, err := tracefile.MergeParts(ctx, out, paths, tracefile.MergeOptions{Format: flags.to, Partial: flags.partial, MaxMemory: int64(a.maxMemory)})
			return convertedJSON(flags.format, &done), err
		}
		names := flags.names
		if len(names) == 0 {
			for _, path := range paths {
				names = append(names, filepath.Base(path))
			}
		}
		done, err := tracefile.MergeProcesses(ctx, out, paths, tracefile.MergeOptions{Format: flags.to, Align: tracefile.Align(flags.align),
			Threads: flags.threads, Names: names, Partial: flags.partial, MaxMemory: int64(a.maxMemory)})
		return convertedJSON(flags.format, &done), err
	})
}

// refuseAsOutput refuses to write over one of the inputs, and inputs that cannot be opened.
func refuseAsOutput(cmd *cobra.Command, paths []string, output string) error {
	for _, path := range paths {
		if path == tracefile.Stdin {
			return &usageError{problem: "cannot merge standard input: each trace is read twice; use files", command: cmd.CommandPath()}
		}
		in, err := tracefile.Open(cmd.Context(), path, nil)
		if err != nil {
			return err
		}
		if err = refuseSame(cmd, in, output); err == nil {
			err = in.NeedWire()
		}
		in.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
