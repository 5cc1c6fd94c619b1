package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/term"
)

// Env is what the command line gets from the process it runs in.
type Env struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
}

// app is one run of the command line.
type app struct {
	Env
	system system

	json     bool
	quiet    bool
	logLevel logLevel
	// maxMemory bounds the memory that reading a trace takes.
	maxMemory memorySize

	running bool // the command line has been understood and its command runs

	onScreen bool // the live view has the terminal: warnings of the session wait until it is over

	state *state
}

// system is the machine that the commands look at.
type system interface {
	resolve(target string) ([]int, error)
	open(pid int, opt loupe.ProcessOptions) (process, error)
	list(ctx context.Context) iter.Seq2[event.ProcessInfo, error]
	check(ctx context.Context, pid int, opt loupe.ProcessOptions) *checkup.Report
	// attach begins to observe live events. A program that cannot be observed does not go on.
	attach(ctx context.Context, target watched, opt loupe.Options) (session, error)
}

// run runs the command line and returns its exit status. The context ends it.
func (a *app) run(ctx context.Context) int {
	if a.state == nil {
		a.state = &state{}
	}
	a.Stdout, a.Stderr = output.NewStream(a.Stdout, "stdout"), output.NewStream(a.Stderr, "stderr")
	defer context.AfterFunc(ctx, a.endOutput)()
	root := a.rootCommand()
	root.SetArgs(a.Args)
	cmd, err := root.ExecuteContextC(ctx)
	var usage *usageError
	if err != nil && !a.running && !errors.As(err, &usage) {
		err = &usageError{problem: err.Error(), command: cmd.CommandPath()}
	}
	if err != nil {
		if line := errorLine(err); line != "" {
			fmt.Fprintln(a.Stderr, line)
		}
	}
	return exitStatus(err)
}

// endOutput bounds how long writing to stdout and stderr waits from now on.
func (a *app) endOutput() {
	for _, w := range []io.Writer{a.Stdout, a.Stderr} {
		if s, ok := w.(interface{ End() }); ok {
			s.End()
		}
	}
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "loupe",
		Short: "Show what a running Go program does",
		Long: `Loupe shows what a running Go program does: every goroutine with its state, wait
reason, wait time and stack, and a live stream of events. The program is not
rebuilt, restarted or signalled, and may be stripped.

TARGET is a PID, the path of an executable, a process name, a container ID,
pod:NAME, pod:NAMESPACE/NAME, or -- PROG ARGS..., which starts a program and
observes it.

Exit status: 0 success; 1 failure; 2 usage error; 3 the target cannot be
observed (no such process, not a Go program, permission denied, layout not
verified).`,
		Example: `  loupe demo
  loupe ps
  loupe goroutines 1234
  sudo loupe trace 1234`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.running = true
		},
	}
	version := root.Flags().Bool("version", false, "print the version, like loupe version")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version && len(args) == 0 {
			return a.version()
		}
		return a.noCommand(cmd, args)
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{problem: err.Error(), command: cmd.CommandPath()}
	})
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print JSON on stdout; messages go to stderr")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print no progress, notes or hints on stderr, only errors")
	a.logLevel.level = slog.LevelWarn
	flags.Var(&a.logLevel, "log-level", "log messages of this `level` and above to stderr: debug, info, warn, error")
	root.AddCommand(a.demoCommand(), a.demoProgramCommand(), a.psCommand(), a.doctorCommand(), a.goroutinesCommand(), a.reportCommand(),
		a.topCommand(), a.traceCommand(), a.recordCommand(), a.profileCommand(), a.memCommand(), a.allocsCommand(), a.spansCommand(), a.tracefileCommand(), a.goCommand(), a.versionCommand())
	root.SuggestionsMinimumDistance = 2
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", a.helpWidth())))
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.Example = "  source <(loupe completion bash)\n  loupe completion zsh > \"${fpath[1]}/_loupe\""
		cmd.Args = noArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// helpWidth is the number of columns for help texts.
func (a *app) helpWidth() int {
	const usual = 80
	if width := term.Width(a.Stdout); width > usual {
		return width
	}
	return usual
}

// helpCommand prints the help of the command that its arguments name.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Print the help of a command",
		Long:    "Print the help of a command, like COMMAND --help.",
		Example: "  loupe help goroutines",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return &usageError{problem: fmt.Sprintf("no help for %q", strings.Join(args, " ")), command: root.CommandPath()}
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// logLevel is the flag --log-level.
type logLevel struct{ level slog.Level }

func (l *logLevel) String() string { return strings.ToLower(l.level.String()) }
func (l *logLevel) Type() string   { return "level" }

func (l *logLevel) Set(name string) error {
	if err := l.level.UnmarshalText([]byte(name)); err != nil {
		return errors.New("must be one of debug, info, warn, error")
	}
	return nil
}

// noCommand handles a command line without a known command.
func (a *app) noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	problem := fmt.Sprintf("unknown command %q", args[0])
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		problem += fmt.Sprintf(", did you mean %s?", strings.Join(similar, " or "))
	}
	return &usageError{problem: problem, command: cmd.CommandPath()}
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{problem: fmt.Sprintf("unexpected argument %q", args[0]), command: cmd.CommandPath()}
	}
	return nil
}

// log returns the logger for details.
func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: a.logLevel.level}))
}

// style returns how to write to stdout.
func (a *app) style() term.Style { return term.StyleFor(a.Stdout, a.Getenv) }

// progress shows on a terminal that work goes on.
func (a *app) progress(text string) *term.Progress {
	if a.quiet || !term.IsTerminal(a.Stderr) {
		return term.StartProgress(nil, text)
	}
	return term.StartProgress(a.Stderr, text)
}

// note tells people something beside the result.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.Stderr, term.Escape("loupe: "+fmt.Sprintf(format, args...)))
	}
}

// notes passes on what was uncertain about a target.
func (a *app) notes(lines []string) {
	for _, l := range lines {
		a.note("note: %s", l)
	}
}
