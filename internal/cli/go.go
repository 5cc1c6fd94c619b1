package cli

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/overlay"
	"github.com/loupe-go/loupe/internal/report"
)

func (a *app) goCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "go VERB ARGS...",
		Short: "Run the go command with the tool interface in the runtime",
		Long: fmt.Sprintf(`Run the go command so that the programs it builds contain the tool interface
(package glti). The toolchain is the one that the go command selects; supported
are %s. Its runtime is patched through the flag -overlay of go
build: the toolchain, the program's source and its go.mod stay as they are.

ARGS, output and exit status are those of the go command. The programs are built
with the tag %s. build, run, test and install have two flags besides:

  -agent=PACKAGE   link the agent of a package, a directory or an import path,
                   into the programs, static ones too; it has a function
                   InitGltiAgent, or calls glti.RegisterAgent
  -agents=KIND     make the programs able to load agents of a kind, which the
                   environment variable GO_GLTI_AGENT names: native for shared
                   libraries, plugin for Go plugins

Both can be repeated, or have a list with commas.`, overlay.Supported, overlay.Tag),
		Example: `  loupe go build ./cmd/server
  loupe go build -agent=./myagent ./cmd/server
  loupe go test -race ./...
  loupe go env`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{problem: fmt.Sprintf("loupe go has no %q; it has %s, env and overlay", args[0], strings.Join(overlay.Verbs, ", ")),
					command: cmd.CommandPath()}
			}
			return cmd.Help()
		},
	}
	for _, verb := range overlay.Verbs {
		cmd.AddCommand(a.goVerbCommand(verb))
	}
	cmd.AddCommand(a.goEnvCommand(), a.goOverlayCommand())
	return cmd
}

// goVerbCommand is a command of the go command.
func (a *app) goVerbCommand(verb string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   verb + " ARGS...",
		Short: "Like go " + verb,
		Long: fmt.Sprintf(`Run go %s ARGS with the tool interface in the runtime.
go help %s describes ARGS. Loupe merges -overlay and -tags with its
own%s.`, verb, verb, map[bool]string{true: ", and has the flags -agent and -agents, which loupe help go describes"}[overlay.Links(verb)]),
		Example:            fmt.Sprintf("  loupe go %s ./...", verb),
		DisableFlagParsing: true, // they are flags of the go command
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "-help") {
			return cmd.Help()
		}
		return goRun(cmd.Context(), verb, args)
	}
	return cmd
}

// goRun replaces this process by the go command, so that signals, output and exit status are its own.
func goRun(ctx context.Context, verb string, args []string) error {
	cache, err := overlay.CacheDir()
	if err != nil {
		return err
	}
	c, err := overlay.Prepare(ctx, verb, args, cache)
	if err != nil {
		return err
	}
	if err := syscall.Exec(c.Path, c.Args, c.Env); err != nil {
		return &exec.Error{Name: c.Path, Err: err}
	}
	return nil
}

// goInfo is what loupe go env and loupe go overlay print.
type goInfo struct {
	GoVersion   string   `json:"goVersion"`
	GOROOT      string   `json:"goroot"`
	UsedGOROOT  string   `json:"usedGoroot"`
	Overlay     string   `json:"overlay"`
	Fingerprint string   `json:"fingerprint"`
	Replaced    []string `json:"replaced"`
	Flags       []string `json:"flags"`
	Env         []string `json:"env"`
}

func newGoInfo(o *overlay.Overlay) goInfo {
	return goInfo{GoVersion: o.Toolchain.Version, GOROOT: o.Toolchain.Root, UsedGOROOT: o.Root, Overlay: o.File,
		Fingerprint: o.Fingerprint, Replaced: o.Replaced, Flags: o.Flags(), Env: append([]string{}, o.Env()...)}
}

func (a *app) goEnvCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print what loupe go uses: toolchain, overlay, fingerprint",
		Long: `Print what loupe go uses in the current directory: the toolchain, the files of
its runtime that are replaced, and the fingerprint, which is also in the
programs that are built. If GOROOT is in the module cache, a directory of links
to it is used, because the go command does not replace files in that cache.`,
		Example: "  loupe go env\n  loupe go env --json | jq -r .fingerprint",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := goOverlay(cmd.Context(), "")
			if err != nil {
				return err
			}
			if a.json {
				return report.WriteJSON(a.Stdout, newGoInfo(o))
			}
			info := newGoInfo(o)
			for _, line := range [][2]string{{"go version", info.GoVersion}, {"GOROOT", info.GOROOT}, {"GOROOT used", info.UsedGOROOT},
				{"overlay", info.Overlay}, {"fingerprint", info.Fingerprint}, {"replaced files", strings.Join(info.Replaced, " ")},
				{"flags", strings.Join(info.Flags, " ")}, {"environment", strings.Join(info.Env, " ")}} {
				if line[1] != "" {
					fmt.Fprintf(a.Stdout, "%-15s %s\n", line[0], line[1])
				}
			}
			return nil
		},
	}
}

func (a *app) goOverlayCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "overlay -o DIR",
		Short: "Write the overlay, for other build systems",
		Long: `Write the overlay for the toolchain of the current directory, and print the
flags of go build that use it. If environment variables are required besides, a
note on stderr has them.`,
		Example: `  loupe go overlay -o /tmp/overlay
  go build $(loupe go overlay -o /tmp/overlay) ./cmd/server`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return &usageError{problem: "missing -o DIR", command: cmd.CommandPath()}
			}
			o, err := goOverlay(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if a.json {
				return report.WriteJSON(a.Stdout, newGoInfo(o))
			}
			if env := o.Env(); len(env) > 0 {
				a.note("the overlay requires the environment variables %s", strings.Join(env, " "))
			}
			_, err = fmt.Fprintln(a.Stdout, strings.Join(o.Flags(), " "))
			return err
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "", "write the overlay to the directory `DIR`")
	return cmd
}

// goOverlay makes the overlay for the current directory, in a directory or, if that is empty, in the user's cache.
func goOverlay(ctx context.Context, dir string) (*overlay.Overlay, error) {
	tc, err := overlay.Find(ctx, "")
	if err != nil {
		return nil, err
	}
	if dir != "" {
		return overlay.MakeIn(tc, dir)
	}
	cache, err := overlay.CacheDir()
	if err != nil {
		return nil, err
	}
	return overlay.Make(tc, cache)
}
