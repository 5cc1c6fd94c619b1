package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/report"
)

// versionJSON says which Loupe this is.
type versionJSON struct {
	Version  string `json:"version"` // of the module; "(devel)" when built from a working tree
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

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
	v := buildVersion()
	if a.json {
		return report.WriteJSON(a.Stdout, v)
	}
	line := "loupe " + v.Version
	if v.Revision != "" {
		line += " " + v.Revision
		if v.Modified {
			line += " (modified)"
		}
	}
	_, err := fmt.Fprintf(a.Stdout, "%s, %s, %s\n", line, v.Go, v.Platform)
	return err
}

// buildVersion reads what the go command has written into this executable.
func buildVersion() versionJSON {
	v := versionJSON{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
