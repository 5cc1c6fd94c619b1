package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/export"
)

// addFormat adds the flag --format, for the formats of a table.
func addFormat(cmd *cobra.Command, name *string, formats export.Table, standard string) {
	names := formats.Names()
	cmd.Flags().StringVar(name, "format", standard, "write this `FORMAT`: "+strings.Join(names, ", "))
	cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// timelines returns the names of the formats of timelines, for a sentence.
func timelines(separator string) string {
	return strings.Join(export.Formats().Timelines().Names(), separator)
}

// viewer returns the end of a message that says how to view a file; empty if there is no usual way.
func viewer(format, file string) string {
	f, err := export.Formats().Find(format)
	if err != nil || f.Viewer == "" {
		return ""
	}
	return "; view with: " + f.View(file)
}
