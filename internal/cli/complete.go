package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/term"
)

// completeTarget offers the Go processes to a shell, by name and by PID.
func (a *app) completeTarget(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || slices.Contains(a.Args, "--") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	pids := map[string][]string{}
	var names, offers []string
	for p, err := range a.system.list(cmd.Context()) {
		if err != nil {
			continue // what cannot be read is not offered
		}
		name := filepath.Base(p.Exe)
		offers = append(offers, cobra.CompletionWithDesc(fmt.Sprint(p.PID), term.Escape(name)))
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' }) || term.Escape(name) != name {
			continue // the shell would make something else of it
		}
		if pids[name] == nil {
			names = append(names, name)
		}
		pids[name] = append(pids[name], fmt.Sprint(p.PID))
	}
	slices.Sort(names)
	for i, name := range names {
		desc := "PID " + pids[name][0]
		if n := len(pids[name]); n > 1 {
			desc = english.Count(n, "process")
		}
		names[i] = cobra.CompletionWithDesc(name, desc)
	}
	return append(names, offers...), cobra.ShellCompDirectiveDefault
}
