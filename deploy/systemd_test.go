package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestSystemd has systemd check the unit: it has no unknown option, and its exposure is at most 3 of 10.
func TestSystemd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is missing: Debian package systemd")
	}
	text, err := os.ReadFile("systemd/loupe-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.Replace(string(text), "ExecStart=/usr/bin/loupe-agent ", "ExecStart="+os.Args[0]+" ", 1) // an executable that exists
	path := filepath.Join(t.TempDir(), "loupe-agent.service")
	write(t, path, unit)
	if status, stdout, stderr := testcmd.Run(t, testcmd.Command(t, "systemd-analyze", "verify", "--man=no", path)); status != 0 || stdout+stderr != "" {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	security := []string{"security", "--offline=true", "--threshold=30", path}
	if status, stdout, stderr := testcmd.Run(t, testcmd.Command(t, "systemd-analyze", security...)); status != 0 {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	write(t, path, strings.Replace(unit, "ProtectSystem=", "ProtectSystems=", 1))
	if _, stdout, stderr := testcmd.Run(t, testcmd.Command(t, "systemd-analyze", "verify", "--man=no", path)); stdout+stderr == "" {
		t.Error("an unknown option is accepted")
	}
}
