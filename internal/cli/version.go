package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of Loupe",
		Long:    "Print the version of Loupe, the source revision it was built from, the Go\nrelease that built it, and its platform.",
		Example: "  loupe version\n  loupe version --json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return a.version() },
	}
}

func (a *app) version() error {
	v := version.Read()
	if a.json {
		return report.WriteJSON(a.Stdout, v)
	}
	_, err := fmt.Fprintf(a.Stdout, "loupe %v\n", v)
	return err
}
