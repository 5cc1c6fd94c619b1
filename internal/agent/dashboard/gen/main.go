// Command gen writes the dashboards to the directory deploy/grafana: go generate ./internal/agent/dashboard.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/loupe-go/loupe/internal/agent/dashboard"
)

// directory is relative to that of package dashboard, in which go generate runs this command.
const directory = "../../../deploy/grafana"

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for _, d := range dashboard.All() {
		text, err := d.JSON()
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", d.UID, err)
		}
		if err := os.WriteFile(filepath.Join(directory, d.UID+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
