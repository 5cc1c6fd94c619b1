package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/footprint"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/internal/tracefile"
	"github.com/loupe-go/loupe/trace"
)

func (a *app) tracefileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "tracefile VERB FILE...",
		DisableFlagsInUseLine: true,
		Short:                 "Inspect and convert execution trace files",
		Long: `Inspect and convert execution traces of Go 1.11 and later, written by
runtime/trace, go test -trace, a flight recorder or loupe record.

FILE - is standard input. An output file replaces an existing file only when it
is complete. Only its owner can read it.

Traces of Go 1.22 and later are read one generation at a time. Older traces are
read as a whole, which takes about 20 times their size in memory. A trace that
requires more than --max-memory is refused.`,
		Example: `  loupe tracefile stat app.trace
  loupe tracefile validate app.trace
  loupe tracefile convert app.trace -o app.pftrace --format perfetto
  loupe tracefile filter app.trace -o part.trace --from 2s --to 3s
  loupe tracefile text app.trace | grep GoBlock`,
		Args: cobra.ArbitraryArgs,
		RunE: a.noCommand,
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.PersistentFlags().Var(&a.maxMemory, "max-memory", "refuse a trace that requires more than `SIZE` of memory (default half of the available memory)")
	cmd.PersistentFlags().Lookup("max-memory").DefValue = ""
	cmd.AddCommand(a.tracefileTextCommand(), a.tracefileWireCommand(), a.tracefileStatCommand(), a.tracefileValidateCommand(),
		a.tracefileConvertCommand(), a.tracefileMergeCommand(), a.tracefileFilterCommand())
	for _, verb := range cmd.Commands() {
		verb.RunE = a.withinMemory(verb.RunE)
	}
	return cmd
}

// minMemory is what the verbs may take even where less seems to be available.
const minMemory = 64 << 20

// withinMemory has a verb run within --max-memory.
func (a *app) withinMemory(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.maxMemory == 0 {
			a.maxMemory = max(memorySize(footprint.Available()/2), minMemory)
		}
		defer footprint.LimitMemory(int64(a.maxMemory))()
		err := run(cmd, args)
		var memory *trace.MemoryError
		if errors.As(err, &memory) {
			return &advisedError{err, "increase --max-memory"}
		}
		return err
	}
}

// oneFile refuses any other number of arguments than one.
func oneFile(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return &usageError{problem: "missing FILE", command: cmd.CommandPath()}
	case 1:
		return nil
	}
	return &usageError{problem: fmt.Sprintf("expected one FILE, got %d", len(args)), command: cmd.CommandPath()}
}

// completeFiles lets a shell offer files.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// outputFlags are the flags of verbs that write a file.
type outputFlags struct {
	path    string
	partial bool
	binary  bool // what is written is nothing for a terminal
}

func (f *outputFlags) add(cmd *cobra.Command, path string) {
	f.path = path
	usage := "write to `FILE`; - is stdout"
	flags := cmd.Flags()
	flags.StringVarP(&f.path, "output", "o", path, usage)
	flags.BoolVar(&f.partial, "partial", false, "if FILE is damaged or truncated, write the part before the damage")
}

// problem says what is wrong with the flags; empty when nothing is.
func (f *outputFlags) problem(a *app) string {
	switch {
	case f.path == "":
		return "missing -o FILE (-o - writes to stdout)"
	case f.path == tracefile.Stdout && a.json:
		return "--json and the output both go to stdout: use -o FILE"
	case f.path == tracefile.Stdout && f.binary && term.IsTerminal(a.Stdout):
		return "refusing to write binary data to a terminal: use -o FILE"
	}
	return ""
}

// writtenJSON tells programs what was written.
type writtenJSON struct {
	File        string   `json:"file"`
	Inputs      []string `json:"inputs"`
	Format      string   `json:"format"`
	GoFormat    string   `json:"goFormat"` // of the first input: "Go1.26"
	Read        uint64   `json:"eventsRead"`
	Events      uint64   `json:"events"` // that were written
	Bytes       int64    `json:"bytes"`
	Begin       string   `json:"begin,omitempty"` // RFC 3339, when it is known
	Nanoseconds *int64   `json:"nanoseconds,omitempty"`
	Notes       []string `json:"notes,omitempty"`
}

// write has a verb write its output from its inputs, and tells what was written.
func (a *app) write(cmd *cobra.Command, flags *outputFlags, inputs []string, work func(ctx context.Context, out *tracefile.Output) (writtenJSON, error)) error {
	if problem := flags.problem(a); problem != "" {
		return &usageError{problem: problem, command: cmd.CommandPath()}
	}
	out, err := a.create(cmd.Context(), flags.path)
	if err != nil {
		return err
	}
	progress := a.progress("reading " + inputName(inputs))
	done, err := work(cmd.Context(), out)
	progress.Stop()
	switch {
	case err == nil || tracefile.IsDamage(err) && flags.partial:
		if commitErr := out.Commit(); commitErr != nil {
			return cannotWrite(flags, commitErr)
		}
		if err != nil {
			done.Notes = append(done.Notes, fmt.Sprintf("%v; the part before the damage was written", err))
		}
		return a.written(flags, inputs, &done, out.Bytes())
	case tracefile.IsDamage(err):
		out.Discard()
		return &advisedError{err, "--partial writes the part before the damage, loupe tracefile validate lists all problems"}
	}
	out.Discard()
	return cannotWrite(flags, err)
}

func cannotWrite(flags *outputFlags, err error) error {
	if flags.path == tracefile.Stdout {
		return unlessReadEnough(err)
	}
	return err
}

// inputName names inputs to people.
func inputName(paths []string) string {
	if len(paths) > 1 {
		return english.Count(len(paths), "trace")
	}
	if paths[0] == tracefile.Stdin {
		return "standard input"
	}
	return paths[0]
}

// unlessReadEnough passes an error of writing to stdout on, unless it is that who reads it has read enough, as head does.
func unlessReadEnough(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// written tells what was written.
func (a *app) written(flags *outputFlags, inputs []string, done *writtenJSON, size int64) error {
	if flags.path == tracefile.Stdout {
		for _, n := range done.Notes {
			a.note("note: %s", n)
		}
		return nil
	}
	done.File, done.Inputs, done.Bytes = flags.path, inputs, size
	if a.json {
		return report.WriteJSON(a.Stdout, done)
	}
	for _, n := range done.Notes {
		a.note("note: %s", n)
	}
	what := english.Count(done.Events, "event")
	if done.Format == export.Pprof {
		what = "profile of " + what
	}
	a.note("wrote %s to %s, %s%s", what, flags.path, english.Size(size), viewer(done.Format, flags.path))
	return nil
}

// refuseSame refuses to write over an input.
func refuseSame(cmd *cobra.Command, in *tracefile.Input, output string) error {
	if output != tracefile.Stdout && in.IsFile(output) {
		return &usageError{problem: fmt.Sprintf("%s is the input file: use another output file", output), command: cmd.CommandPath()}
	}
	return nil
}
