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
		Short:                 "A trace as text, every event a line",
		Long: `Write a trace as text: a line for each event, with its arguments and their
names, and lines for strings and stacks. Events stand as they do in the file,
which is one batch after the other and not in the order of time.

The text can be changed by hand, and loupe tracefile wire makes a trace of it.
With --exact comments keep the widths of numbers, so that this is the same file,
byte by byte.`,
		Example: `  loupe tracefile text app.trace | less
  loupe tracefile text app.trace -o app.txt
  loupe tracefile text --exact app.trace | loupe tracefile wire --exact - | cmp - app.trace`,
	}
	return a.rawVerb(cmd, false, "text", "keep the widths of numbers, in comments", tracefile.ToText)
}

func (a *app) tracefileWireCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "wire [flags] FILE",
		DisableFlagsInUseLine: true,
		Short:                 "A trace made of text",
		Long: `Make a trace of text as loupe tracefile text writes it, in the format that the
first line tells. The sizes of batches are computed, so events may be added,
removed and changed. With --exact they are those of the text, and numbers have
the widths that comments tell.

Nothing is checked but that each line is an event: loupe tracefile validate
checks the rest.`,
		Example: `  loupe tracefile wire app.txt -o app.trace
  loupe tracefile wire --exact app.txt -o same.trace`,
	}
	return a.rawVerb(cmd, true, "wire", "sizes of batches and widths of numbers as the text has them", tracefile.ToWire)
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
