package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

// completeTarget offers the Go processes to a shell.
func (a *app) completeTarget(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	list, _ := a.system.list(cmd.Context()) // what cannot be read is not offered
	var offers []string
	for _, p := range list {
		offers = append(offers, cobra.CompletionWithDesc(fmt.Sprint(p.PID), filepath.Base(p.Exe)))
	}
	return offers, cobra.ShellCompDirectiveDefault
}
