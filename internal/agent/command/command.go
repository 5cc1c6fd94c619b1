package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/internal/version"
)

const name = "loupe-agent"

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1 // the agent failed
	exitUsage  = 2 // wrong usage, or an invalid configuration
)

// Env is what the command line gets from the process that it runs in.
type Env struct {
	Args    []string // without the program's name
	Environ []string // as of os.Environ
	Stdout  io.Writer
	Stderr  io.Writer
}

// A Start is what the agent starts with.
type Start struct {
	Config *config.Config
	Stderr io.Writer // for the log

	source  config.Source
	hangups <-chan os.Signal
}

// Watch loads the configuration again when its file changes and at each SIGHUP, until the context ends. See [config.Source.Watch].
func (s *Start) Watch(ctx context.Context, report func(config.Reload)) {
	s.source.Watch(ctx, s.Config, s.hangups, report)
}

// Main runs the agent as all that this process does, and returns its exit status. The context of run ends at SIGINT or SIGTERM. More of
// those signals have no effect: run must detach from the targets, and it bounds how long that takes.
func Main(env Env, run func(context.Context, *Start) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	return execute(ctx, env, hangups, run)
}

// usageError is a command line that is wrong.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem + "; see " + name + " --help" }

// execute is Main without the signals.
func execute(ctx context.Context, env Env, hangups <-chan os.Signal, run func(context.Context, *Start) error) int {
	cmd := newCommand(env, hangups, run)
	cmd.SetArgs(env.Args)
	err := cmd.ExecuteContext(ctx)
	var usage *usageError
	var problems config.Problems
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &problems):
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintln(env.Stderr, line)
		}
		fmt.Fprintf(env.Stderr, "%s: invalid configuration: %s\n", name, english.Count(len(problems), "problem"))
		return exitUsage
	}
	fmt.Fprintf(env.Stderr, "%s: %s\n", name, term.Escape(err.Error()))
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// newCommand returns the command.
func newCommand(env Env, hangups <-chan os.Signal, run func(context.Context, *Start) error) *cobra.Command {
	source := config.Source{Environ: env.Environ}
	var check, printVersion bool
	cmd := &cobra.Command{
		Use:   name + " [--config FILE]",
		Short: "Observe all Go processes of a machine",
		Long: `Observe all Go processes of a machine, all the time, and pass on what is learned:
metrics to Prometheus; metrics, spans, logs and profiles by OTLP.

Without any setting, the agent observes all Go processes that it may, serves
/metrics on :9090, and /healthz and /readyz on :8080. A flag overrides an
environment variable, which overrides the configuration file. The file is
loaded again when it changes and at SIGHUP; if the new one is invalid, the old
one remains in effect. docs/AGENT.md describes all keys.

Exit status: 0 success; 1 failure; 2 usage error or invalid configuration.`,
		Example: `  sudo loupe-agent
  sudo loupe-agent --config /etc/loupe/loupe-agent.yaml
  loupe-agent --config loupe-agent.yaml --check
  sudo loupe-agent --set sampling.events_per_second=500 --set tracing.profiles=cpu,heap`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Sprintf("unexpected argument %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printVersion {
				_, err := fmt.Fprintf(env.Stdout, "%s %v\n", name, version.Read())
				return err
			}
			c, err := source.Load()
			if err != nil {
				return err
			}
			for _, w := range c.Warnings() {
				fmt.Fprintf(env.Stderr, "%s: warning: %v\n", name, w)
			}
			if check {
				return c.Print(env.Stdout)
			}
			return run(cmd.Context(), &Start{Config: c, Stderr: env.Stderr, source: source, hangups: hangups})
		},
	}
	cmd.SetOut(env.Stdout)
	cmd.SetErr(env.Stderr)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err.Error()} })
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&source.File, "config", "", "read the configuration from this `file`")
	flags.BoolVar(&check, "check", false, "check the configuration, print it with the origin of each value, and exit")
	addSettings(flags, &source)
	flags.BoolVar(&printVersion, "version", false, "print the version and exit")
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d ", max(80, term.Width(env.Stdout)))
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages ", wrapped))
	return cmd
}

// usages are the texts for the flags of [config.FlagPaths].
var usages = map[string]string{
	"node":      "the `name` of this machine (default: NODE_NAME, or the host name)",
	"listen":    "serve /metrics on this `address` (default :9090)",
	"log-level": "log messages of this `level` and above: debug, info, warn, error",
}

// addSettings adds the flags that set keys.
func addSettings(flags *pflag.FlagSet, source *config.Source) {
	paths := config.FlagPaths()
	for _, flag := range slices.Sorted(maps.Keys(paths)) {
		flags.Var(&setting{source: source, name: "--" + flag, path: paths[flag]}, flag, usages[flag])
	}
	flags.Var(&setting{source: source}, "set", "set a `key=value`, such as tracing.engine=inline; lists are separated by commas; can be repeated")
}

// setting is a flag that sets a key. Without a path, the value of the flag begins with it.
type setting struct {
	source     *config.Source
	name, path string
}

func (s *setting) String() string { return "" }
func (s *setting) Type() string   { return "string" }

func (s *setting) Set(value string) error {
	f := config.Flag{Name: s.name, Path: s.path, Value: value}
	if s.path == "" {
		path, value, ok := strings.Cut(value, "=")
		if !ok || path == "" {
			return errors.New("must have the form KEY=VALUE, such as tracing.engine=inline")
		}
		f = config.Flag{Name: "--set " + path, Path: path, Value: value}
	}
	s.source.Flags = append(s.source.Flags, f)
	return nil
}
