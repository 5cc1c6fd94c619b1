package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/internal/term"
)

// goroutineProfile is the type of profile that one look gives; the others are made from live events.
const goroutineProfile = "goroutine"

// profileTypeNames lists the types of profile.
func profileTypeNames() []string {
	names := []string{goroutineProfile}
	for _, t := range stream.ProfileTypes() {
		names = append(names, t.Name)
	}
	return names
}

// profileJSON tells programs what was written.
type profileJSON struct {
	File       string `json:"file"`
	Type       string `json:"type"`
	Goroutines int    `json:"goroutines"`
	Samples    int    `json:"samples"` // distinct stacks and labels
	Bytes      int64  `json:"bytes"`
}

// profileFlags are the flags of loupe profile.
type profileFlags struct {
	target  targetFlags
	live    liveFlags
	output  string
	kind    string
	pause   bool
	reasons []string
}

func (a *app) profileCommand() *cobra.Command {
	var flags profileFlags
	cmd := &cobra.Command{
		Use:                   "profile [flags] -o FILE TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Write a pprof profile of a running program",
		Long: `Write a profile of a running Go program in pprof format, as runtime/pprof does.
The program needs no pprof endpoint and no profiling enabled. pprof does not
need the executable to show the profile.

  goroutine  the number of goroutines at each stack now, with their labels. The
             second value, wait, is the time they have been blocked, where the
             runtime recorded it: go tool pprof -sample_index=wait FILE
  create     goroutines created during --duration, by the stack that created
             them; the leaf is the function that the goroutine starts
  block      how often and how long goroutines waited for channels, locks and
             other types of package sync, by the stack that waited; --reason
             selects other waits
  mutex      how long goroutines waited for locks, by the stack that unlocked
  sched      how long runnable goroutines waited for a processor, by the stack
             at which they resumed

All types except goroutine observe live events for --duration, or until Ctrl-C
or until the program exits. A wait is counted when it ends. Lost events are
reported, and recorded in the profile: go tool pprof -comments FILE.

` + targetHelp + `
All types except goroutine observe the program from its first goroutine.`,
		Example: `  loupe profile 1234 -o goroutines.pb.gz
  loupe profile orders -o now.pb.gz && go tool pprof -top now.pb.gz
  loupe profile orders --type block --duration 30s -o block.pb.gz
  loupe profile orders --type block --reason "IO wait" -o io.pb.gz
  loupe profile -o g.pb.gz --after 5s -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	flags.target.add(cmd)
	flags.live.add(cmd, 10*time.Second)
	f := cmd.Flags()
	f.StringVarP(&flags.output, "output", "o", "", "write the profile to `FILE`; - is stdout")
	f.StringVar(&flags.kind, "type", goroutineProfile, "`KIND` of the profile: "+strings.Join(profileTypeNames(), ", "))
	f.BoolVar(&flags.pause, "pause", false, "goroutine: stop the program with ptrace for a few milliseconds, to read all goroutines at one moment")
	f.StringArrayVar(&flags.reasons, "reason", nil, "block, mutex: count waits whose reason contains `TEXT` instead of the default reasons; repeatable, any may match")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(profileTypeNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if problem := flags.problem(cmd, a); problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		out, err := a.create(cmd.Context(), flags.output)
		if err != nil {
			return err
		}
		defer out.Discard()
		if kind, ok := stream.ProfileTypeOf(flags.kind); ok {
			return a.profileEvents(cmd, args, kind, &flags, out)
		}
		return a.onTarget(cmd, args, &flags.target, func(ctx context.Context, pid int) error {
			return a.withProcess(pid, func(p process) error {
				return a.profile(ctx, p, &flags, out, goproc.SnapshotOptions{Pause: flags.pause})
			})
		})
	}
	return cmd
}

// problem says what is wrong with the flags; empty when nothing is.
func (f *profileFlags) problem(cmd *cobra.Command, a *app) string {
	kind, live := stream.ProfileTypeOf(f.kind)
	if !live && f.kind != goroutineProfile {
		return fmt.Sprintf("unknown profile type %q: must be one of %s", f.kind, strings.Join(profileTypeNames(), ", "))
	}
	misplaced := []string{"duration", "stack", "buffer"}
	if live {
		misplaced = []string{"after", "pause"}
	}
	if kind.Waits == nil {
		misplaced = append(misplaced, "reason")
	}
	for _, name := range misplaced {
		if cmd.Flags().Changed(name) {
			return fmt.Sprintf("--%s does not apply to profiles of type %s", name, f.kind)
		}
	}
	switch {
	case f.output == "":
		return "missing -o FILE (-o - writes to stdout)"
	case f.output == "-" && a.json:
		return "--json and -o - both write to stdout"
	case f.output == "-" && term.IsTerminal(a.Stdout):
		return "refusing to write a binary profile to a terminal: use -o FILE"
	}
	return f.live.problem()
}

// profile takes a goroutine profile and writes it to a file.
func (a *app) profile(ctx context.Context, p process, flags *profileFlags, out *output.File, opt goproc.SnapshotOptions) error {
	snap, err := a.snapshot(ctx, p, opt)
	if err != nil {
		return err
	}
	prof := pprof.Goroutines(snap, p.Mapping())
	if err := finish(out, prof.Write(out)); err != nil || flags.output == output.Stdout {
		return err
	}
	done := profileJSON{File: out.Name, Type: goroutineProfile, Goroutines: len(census.Program(snap)), Samples: len(prof.Sample), Bytes: out.Bytes()}
	if a.json {
		return report.WriteJSON(a.Stdout, done)
	}
	a.note("wrote %s in %s to %s; view with: go tool pprof -top %s", english.Count(done.Goroutines, "goroutine"), english.Count(done.Samples, "distinct stack"), out.Name, out.Name)
	return nil
}
