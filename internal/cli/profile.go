package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/term"
)

// A profileType is a value of --type.
type profileType struct {
	name  string
	help  string   // its lines in the help of the command
	flags []string // the flags that apply to some types only, and to this one

	maxRate float64 // the maximum of --rate, if it applies

	run func(a *app, cmd *cobra.Command, args []string, flags *profileFlags, out *output.File) error
}

// goroutineProfile is the type of profile that is computed from one snapshot.
const goroutineProfile = "goroutine"

// profileTypes returns the types of profiles in the order of the help. The first one is the default.
func profileTypes() []profileType {
	types := []profileType{{name: goroutineProfile, flags: []string{"after", "pause"}, run: (*app).profileGoroutines,
		help: `the number of goroutines at each stack now, with their labels. The
second value, wait, is the time they have been blocked, where the
runtime recorded it: go tool pprof -sample_index=wait FILE`}, cpuProfileType, heapProfileType}
	for _, t := range loupe.ProfileTypes() {
		flags := []string{"duration", "stack", "buffer"}
		if t.CountsWaits() {
			flags = append(flags, "reason")
		}
		if recordedProfiles[string(t)] != nil {
			flags = append(flags, sinceStartFlag)
		}
		types = append(types, profileType{name: string(t), help: eventProfileHelp[t], flags: flags, run: (*app).profileEvents})
	}
	return append(types, wallProfileType, profileType{name: allocProfile, flags: []string{"duration", "stack", "buffer"}, run: (*app).profileAllocs,
		help: `objects and bytes allocated during --duration, by the stack that
allocated; exact, see loupe allocs --help`})
}

// profileTypeNames lists the types of profiles.
func profileTypeNames() []string {
	var names []string
	for _, t := range profileTypes() {
		names = append(names, t.name)
	}
	return names
}

// profileTypesHelp describes each type, in lines of at most 80 columns.
func profileTypesHelp() string {
	var b strings.Builder
	for _, t := range profileTypes() {
		fmt.Fprintf(&b, "  %-10s %s\n", t.name, strings.ReplaceAll(t.help, "\n", "\n             "))
	}
	return b.String()
}

// profileJSON is the document for --json of a goroutine profile.
type profileJSON struct {
	profileFile
	Goroutines int `json:"goroutines"`
}

// profileFlags are the flags of loupe profile.
type profileFlags struct {
	target   targetFlags
	live     liveFlags
	write    profileOutput
	output   string
	kind     string
	pause    bool
	reasons  []string
	rate     float64
	named    string // the target, if it was not given as a PID
	cpu      cpuFlags
	recorded bool // since-start
}

func (a *app) profileCommand() *cobra.Command {
	var flags profileFlags
	cmd := &cobra.Command{
		Use:                   "profile [flags] -o FILE TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Write a profile of a running program, for pprof or as a flame graph",
		Long: `Write a profile of a running Go program in pprof format, as runtime/pprof does.
The program needs no pprof endpoint and no profiling enabled. pprof does not
need the executable to show the profile.

` + profileTypesHelp() + `
All types except goroutine and heap observe the program for --duration, or until
Ctrl-C or until the program exits. A wait is counted when it ends. What is lost
is reported, and recorded in the profile: go tool pprof -comments FILE.

With --since-start, the types block and mutex are read from the memory of a
program that has enabled them with runtime.SetBlockProfileRate or
runtime.SetMutexProfileFraction: everything since it started.

` + profileFormatsHelp() + `
` + targetHelp + `
The types of events observe the program from its first goroutine; goroutine,
cpu, heap and wall after --after.`,
		Example: `  loupe profile 1234 -o goroutines.pb.gz
  loupe profile orders -o now.pb.gz && go tool pprof -top now.pb.gz
  loupe profile orders --type cpu --duration 30s -o cpu.pb.gz
  loupe profile orders --type heap -o heap.pb.gz
  loupe profile orders --type block --duration 30s -o block.pb.gz
  loupe profile orders --type mutex --since-start -o mutex.pb.gz
  loupe profile orders --type block --reason "IO wait" -o io.pb.gz
  loupe profile orders --type wall --format flamegraph -o wall.html
  loupe profile orders --format folded -o - | sort -n -k2 | tail
  loupe profile orders --type wall --diff old.pb.gz --format flamegraph -o diff.html
  loupe profile -o g.pb.gz --after 5s -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	flags.target.add(cmd)
	flags.live.add(cmd, 10*time.Second)
	f := cmd.Flags()
	f.StringVarP(&flags.output, "output", "o", "", "write the profile to `FILE`; - is stdout")
	f.StringVar(&flags.kind, "type", goroutineProfile, "`KIND` of the profile: "+strings.Join(profileTypeNames(), ", "))
	f.BoolVar(&flags.pause, "pause", false, "goroutine, wall: stop the program with ptrace for a few milliseconds, to read all goroutines at one moment")
	f.Float64Var(&flags.rate, "rate", 0, fmt.Sprintf("cpu: take `N` samples per second of processor time, at most %d (default %d); wall: take N snapshots per second, at most %d (default %d)",
		loupe.MaxCPURate, loupe.DefaultCPURate, loupe.MaxWallRate, loupe.DefaultWallRate))
	flags.write.add(cmd)
	flags.cpu.add(f)
	f.StringArrayVar(&flags.reasons, "reason", nil, "block, mutex: count waits whose reason contains `TEXT` instead of the default reasons; repeatable, any may match")
	f.BoolVar(&flags.recorded, sinceStartFlag, false, "block, mutex: read what the program itself has recorded since it started, instead of live events")
	cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(profileTypeNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if problem := flags.problem(cmd, a); problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		if _, err := strconv.Atoi(args[0]); err != nil {
			flags.named = args[0]
		}
		if err := flags.write.readOld(); err != nil {
			return err
		}
		out, err := a.create(cmd.Context(), flags.output)
		if err != nil {
			return err
		}
		defer out.Discard()
		if flags.recorded {
			return a.profileRecorded(cmd, args, &flags, out)
		}
		return flags.profileType().run(a, cmd, args, &flags, out)
	}
	return cmd
}

// profileType returns the type that --type selects. It must be one of [profileTypeNames].
func (f *profileFlags) profileType() profileType {
	types := profileTypes()
	return types[slices.IndexFunc(types, func(t profileType) bool { return t.name == f.kind })]
}

// problem returns what is wrong with the flags, or the empty string.
func (f *profileFlags) problem(cmd *cobra.Command, a *app) string {
	if !slices.Contains(profileTypeNames(), f.kind) {
		return fmt.Sprintf("unknown profile type %q: must be one of %s", f.kind, strings.Join(profileTypeNames(), ", "))
	}
	applies := f.profileType().flags
	for _, t := range profileTypes() {
		for _, name := range t.flags {
			if cmd.Flags().Changed(name) && !slices.Contains(applies, name) {
				return fmt.Sprintf("--%s does not apply to profiles of type %s", name, f.kind)
			}
		}
	}
	for _, name := range f.profileType().flags {
		if f.recorded && name != sinceStartFlag && cmd.Flags().Changed(name) {
			return fmt.Sprintf("--%s does not apply with --%s", name, sinceStartFlag)
		}
	}
	switch {
	case f.recorded && cmd.ArgsLenAtDash() == 0:
		return "--" + sinceStartFlag + " requires a program that is running already"
	case f.output == "":
		return "missing -o FILE (-o - writes to stdout)"
	case f.output == "-" && a.json:
		return "--json and -o - both write to stdout"
	case f.output == "-" && f.write.format.name != foldedFormat && term.IsTerminal(a.Stdout):
		return "refusing to write a profile in format " + f.write.format.name + " to a terminal: use -o FILE"
	case cmd.Flags().Changed("rate") && (!(f.rate > 0) || f.rate > f.profileType().maxRate):
		return fmt.Sprintf("--rate %g: must be more than 0 and at most %g", f.rate, f.profileType().maxRate)
	case cmd.Flags().Changed("diff") && f.write.diff == "":
		return "--diff requires the name of a file"
	}
	return cmp.Or(f.cpu.problem(), f.live.problem())
}

// profileGoroutines writes a profile of the goroutines of a snapshot.
func (a *app) profileGoroutines(cmd *cobra.Command, args []string, flags *profileFlags, out *output.File) error {
	return a.onTarget(cmd, args, &flags.target, func(ctx context.Context, pid int) error {
		return a.withProcess(pid, func(p process) error {
			return a.profile(ctx, p, flags, out, loupe.SnapshotOptions{Pause: flags.pause})
		})
	})
}

// profile takes a goroutine profile and writes it to a file.
func (a *app) profile(ctx context.Context, p process, flags *profileFlags, out *output.File, opt loupe.SnapshotOptions) error {
	snap, err := a.snapshot(ctx, p, opt)
	if err != nil {
		return err
	}
	goroutines := len(census.Program(snap))
	return a.writeProfile(out, flags, profileResult{
		profile: p.Profile(snap), process: p.Info().PID, exe: p.Info().Exe, counted: english.Count(goroutines, "goroutine"),
		json: func(file profileFile) any { return profileJSON{file, goroutines} },
	})
}
