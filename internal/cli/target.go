package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
)

// targetFlags are the flags of a command that looks at a TARGET once.
type targetFlags struct {
	after  time.Duration
	engine choice
}

// choice is a flag that takes one of some names, the first of them unless another one is given.
type choice struct {
	name  string
	names []string
}

func (c *choice) String() string { return c.name }
func (c *choice) Type() string   { return "name" }

func (c *choice) Set(name string) error {
	if !slices.Contains(c.names, name) {
		return errors.New("must be one of " + strings.Join(c.names, ", "))
	}
	c.name = name
	return nil
}

// add adds the flag to a command. what and note are what its help says before and behind the names.
func (c *choice) add(cmd *cobra.Command, flag, what, note string, names ...string) {
	c.name, c.names = names[0], names
	cmd.Flags().Var(c, flag, what+": "+strings.Join(names, ", ")+note)
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// addEngine adds the flag --engine. A snapshot reads memory and needs no engine, so its commands only check the name: a
// script can give every command the same flags.
func addEngine(c *choice, cmd *cobra.Command, note string) {
	c.add(cmd, "engine", "engine for live events", note,
		string(loupe.EngineAuto), string(loupe.EngineUprobe), string(loupe.EngineInline), string(loupe.EngineAgent))
}

// Bounds for what is done about a name of many processes: how many an error line lists, and how many are looked at.
const (
	maxListedPIDs = 20
	maxTriedPIDs  = 100
)

func (t *targetFlags) add(cmd *cobra.Command) {
	addEngine(&t.engine, cmd, "; a snapshot requires none")
	cmd.Flags().DurationVar(&t.after, "after", time.Second, "with -- PROG: inspect the program after it has run for this time")
}

// targetHelp is the part of a command's help that says what TARGET is.
const targetHelp = `TARGET is a PID, the path of an executable, a process name, a container ID,
pod:NAME, pod:NAMESPACE/NAME, or -- PROG ARGS..., which starts a program,
inspects it after one second (--after) and waits until it exits. The output of
the program goes to stderr. Loupe exits with its exit status. A name that
matches several Go processes is an error, which lists their PIDs.`

// targetArgs accepts one TARGET, or -- PROG ARGS...; with optional, nothing at all too.
func targetArgs(optional bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		problem := ""
		dash := cmd.ArgsLenAtDash()
		switch {
		case dash == 0 && len(args) == 0:
			problem = "missing program after --"
		case dash > 0:
			problem = "give either a TARGET or -- PROG ARGS..., not both"
		case dash < 0 && startsLater(cmd):
			problem = "--after applies only to programs that Loupe starts: -- PROG ARGS..."
		case dash < 0 && len(args) == 0 && !optional:
			problem = "missing TARGET: a PID, the path of an executable, a process name, a container ID, pod:NAME, or -- PROG ARGS..."
		case dash < 0 && len(args) > 1:
			problem = fmt.Sprintf("expected one TARGET, got %d; to start a program, put -- before it", len(args))
		}
		if problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		return nil
	}
}

// startsLater reports whether --after was given to a command where it is the time that a program runs first. To record it
// is something else.
func startsLater(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("after") && cmd.Name() != "record"
}

// onTarget finds the target of a command line, or starts it, and calls look with its PID.
func (a *app) onTarget(cmd *cobra.Command, args []string, flags *targetFlags, look func(ctx context.Context, pid int) error) error {
	if cmd.ArgsLenAtDash() == 0 {
		return a.onProgram(cmd.Context(), args, flags.after, look)
	}
	pid, err := a.find(cmd, args[0])
	if err != nil {
		return err
	}
	return look(cmd.Context(), pid)
}

// find returns the one process that a target names.
func (a *app) find(cmd *cobra.Command, target string) (int, error) {
	pids, err := a.system.resolve(target)
	if err != nil {
		return 0, &targetError{err: err}
	}
	if n := len(pids); n > 1 {
		if pids = a.goProcesses(pids); len(pids) == 0 {
			return 0, &targetError{err: fmt.Errorf("%s: none of %d processes can be observed: %w", target, n, loupe.ErrNotGo)}
		}
	}
	if len(pids) > 1 {
		return 0, &usageError{
			problem: fmt.Sprintf("%s matches %d processes: use one of the PIDs %s", target, len(pids), pidList(pids)),
			command: cmd.CommandPath(),
		}
	}
	return pids[0], nil
}

// goProcesses leaves out those processes that are no Go programs, such as the shell that runs a wrapper of the same name.
// If there are too many to tell, it returns all.
func (a *app) goProcesses(pids []int) []int {
	if len(pids) > maxTriedPIDs {
		return pids
	}
	var found []int
	for _, pid := range pids {
		p, err := a.system.open(pid, a.processOptions())
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, loupe.ErrNotGo) {
			found = append(found, pid)
		}
	}
	return found
}

func pidList(pids []int) string {
	words := make([]string, 0, len(pids))
	for i, pid := range pids {
		if i == maxListedPIDs {
			words = append(words, "...")
			break
		}
		words = append(words, strconv.Itoa(pid))
	}
	return strings.Join(words, " ")
}

// processOptions returns the options for reading a process.
func (a *app) processOptions() loupe.ProcessOptions { return loupe.ProcessOptions{Log: a.log()} }

// withProcess opens a Go process and calls look with it.
func (a *app) withProcess(pid int, look func(process) error) error {
	p, err := a.system.open(pid, a.processOptions())
	if err != nil {
		return &targetError{pid: pid, err: err}
	}
	defer p.Close()
	return look(p)
}

// snapshot takes a snapshot and passes on what is uncertain about it.
func (a *app) snapshot(ctx context.Context, p process, opt loupe.SnapshotOptions) (*event.Snapshot, error) {
	pid := p.Info().PID
	progress := a.progress(fmt.Sprintf("reading the goroutines of process %d", pid))
	var snap *event.Snapshot
	read := func() (err error) {
		snap, err = p.Snapshot(ctx, opt)
		return err
	}
	var err error
	if opt.Pause {
		err = a.state.hold.stopping(read)
	} else {
		err = read()
	}
	progress.Stop()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil, err
		}
		return nil, fmt.Errorf("cannot read goroutines: %w", &targetError{pid: pid, err: err})
	}
	a.notes(event.WarningTexts(snap.Warnings))
	return snap, nil
}
