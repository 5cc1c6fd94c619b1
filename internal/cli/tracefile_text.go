package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/tracefile"
)

func (a *app) tracefileTextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "text [flags] FILE",
		DisableFlagsInUseLine: true,
		Short:                 "Convert a trace to text, one event per line",
		Long: `Convert a trace to text: one line per event, with the names and values of its
arguments, and lines for strings and stacks. Events are in the order of the
file, batch by batch, and not in order of time.

The text can be edited, and loupe tracefile wire converts it back to a trace.
With --exact, comments record the widths of numbers, so that the result is
identical to the original file.`,
		Example: `  loupe tracefile text app.trace | less
  loupe tracefile text app.trace -o app.txt
  loupe tracefile text --exact app.trace | loupe tracefile wire --exact - | cmp - app.trace`,
	}
	return a.rawVerb(cmd, false, "text", "record the widths of numbers in comments", tracefile.ToText)
}

func (a *app) tracefileWireCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "wire [flags] FILE",
		DisableFlagsInUseLine: true,
		Short:                 "Convert text to a trace",
		Long: `Convert the text that loupe tracefile text writes to a trace, in the format that
the first line names. The sizes of batches are computed, so events can be added,
removed and changed. With --exact the sizes of batches are those in the text,
and the widths of numbers are those in the comments.

wire only checks the syntax of each line. loupe tracefile validate checks the
trace.`,
		Example: `  loupe tracefile wire app.txt -o app.trace
  loupe tracefile wire --exact app.txt -o same.trace`,
	}
	return a.rawVerb(cmd, true, "wire", "use the sizes of batches and the widths of numbers in the text", tracefile.ToWire)
}

// rawVerb completes a verb that writes a trace in another form.
func (a *app) rawVerb(cmd *cobra.Command, binary bool, format, exactUsage string,
	copyAll func(context.Context, *tracefile.Output, *tracefile.Input, bool) (tracefile.Copied, error)) *cobra.Command {
	flags := outputFlags{binary: binary}
	var exact bool
	flags.add(cmd, tracefile.Stdout)
	cmd.Flags().BoolVar(&exact, "exact", false, exactUsage)
	cmd.Args, cmd.ValidArgsFunction = oneFile, completeFiles
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.writeFrom(cmd, &flags, args[0], func(ctx context.Context, out *tracefile.Output, in *tracefile.Input) (writtenJSON, error) {
			done, err := copyAll(ctx, out, in, exact)
			n := uint64(done.Events)
			return writtenJSON{Format: format, GoFormat: done.Version.String(), Read: n, Events: n}, err
		})
	}
	return cmd
}

// writeFrom has a verb write its output from one input.
func (a *app) writeFrom(cmd *cobra.Command, flags *outputFlags, path string,
	work func(context.Context, *tracefile.Output, *tracefile.Input) (writtenJSON, error)) error {
	if problem := flags.problem(a); problem != "" { // before a long wait for standard input
		return &usageError{problem: problem, command: cmd.CommandPath()}
	}
	in, err := tracefile.Open(cmd.Context(), path, a.Stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	in.MaxMemory = int64(a.maxMemory)
	if err := refuseSame(cmd, in, flags.path); err != nil {
		return err
	}
	return a.write(cmd, flags, []string{path}, func(ctx context.Context, out *tracefile.Output) (writtenJSON, error) {
		return work(ctx, out, in)
	})
}
