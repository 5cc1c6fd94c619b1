package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/census"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// profileTypes are the kinds of profile that can be taken.
var profileTypes = []string{"goroutine"}

// profileJSON tells programs what was written.
type profileJSON struct {
	File       string `json:"file"`
	Type       string `json:"type"`
	Goroutines int    `json:"goroutines"`
	Samples    int    `json:"samples"` // distinct stacks and labels
	Bytes      int    `json:"bytes"`
}

func (a *app) profileCommand() *cobra.Command {
	var target targetFlags
	var output, kind string
	var pause bool
	cmd := &cobra.Command{
		Use:                   "profile [flags] -o FILE TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "A pprof profile of a running program, which needs no pprof endpoint",
		Long: `Write a profile of a running Go program in pprof's format, as its own
runtime/pprof would. The program needs no pprof endpoint, and viewing the
profile needs no executable.

A goroutine profile counts the goroutines at each stack, with their labels. Its
second value, wait, is the time they have been blocked as far as the runtime has
noted it: go tool pprof -sample_index=wait FILE.

` + targetHelp,
		Example: `  loupe profile 1234 -o goroutines.pb.gz
  loupe profile orders --type goroutine -o - | go tool pprof -top /dev/stdin
  loupe profile -o g.pb.gz --after 5s -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			if problem := a.profileProblem(output, kind); problem != "" {
				return &usageError{problem: problem, command: cmd.CommandPath()}
			}
			return a.onTarget(cmd, args, &target, func(ctx context.Context, pid int) error {
				return a.withProcess(pid, func(p process) error {
					return a.profile(ctx, p, output, kind, goproc.SnapshotOptions{Pause: pause})
				})
			})
		},
	}
	target.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write the profile to; - for stdout")
	cmd.Flags().StringVar(&kind, "type", "goroutine", "`KIND` of profile: "+strings.Join(profileTypes, ", "))
	cmd.Flags().BoolVar(&pause, "pause", false, "stop the program by ptrace while reading, some milliseconds, for an exact picture")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(profileTypes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// profileProblem says what is wrong with the flags; empty when nothing is.
func (a *app) profileProblem(output, kind string) string {
	switch {
	case kind != "goroutine":
		return fmt.Sprintf("unknown profile type %q, there is: %s", kind, strings.Join(profileTypes, ", "))
	case output == "":
		return "no file to write to: -o FILE, or -o - for stdout"
	case output == "-" && a.json:
		return "--json and -o - both want stdout"
	case output == "-" && term.IsTerminal(a.Stdout):
		return "a profile is binary and stdout is a terminal: -o FILE"
	}
	return ""
}

// profile takes a profile and writes it to a file.
func (a *app) profile(ctx context.Context, p process, output, kind string, opt goproc.SnapshotOptions) error {
	snap, err := a.snapshot(ctx, p, opt)
	if err != nil {
		return err
	}
	prof := census.Profile(snap, p.Mapping())
	var doc bytes.Buffer
	if err := prof.Write(&doc); err != nil {
		return fmt.Errorf("making the profile: %w", err)
	}
	if output == "-" {
		_, err := a.Stdout.Write(doc.Bytes())
		return err
	}
	done := profileJSON{File: output, Type: kind, Goroutines: len(census.Program(snap)), Samples: prof.Samples(), Bytes: doc.Len()}
	if err := os.WriteFile(output, doc.Bytes(), 0o666); err != nil {
		return &advisedError{fmt.Errorf("writing the profile: %w", err), "choose another file with -o"}
	}
	if a.json {
		return report.WriteJSON(a.Stdout, done)
	}
	a.note("%d goroutines in %d distinct stacks written to %s; view them: go tool pprof -top %s", done.Goroutines, done.Samples, output, output)
	return nil
}
