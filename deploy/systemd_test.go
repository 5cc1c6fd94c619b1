package deploy

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

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
	unit = strings.Replace(unit, "/bin/kill ", os.Args[0]+" ", 1)                                            // the package with kill need not be installed
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

// TestSystemdNotify runs the command of the unit, and reads its messages to systemd: READY=1, WATCHDOG=1 and STOPPING=1.
func TestSystemdNotify(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("systemd/loupe-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	option := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(string(text))
		if m == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return m[1]
	}
	if kind := option("Type"); kind != "notify" {
		t.Fatalf("the unit is of type %s", kind)
	}
	option("WatchdogSec") // this test has a shorter one
	command := strings.Fields(option("ExecStart"))
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	config, err := filepath.Abs("loupe-agent.yaml") // the unit says to install this one
	if err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(strings.ReplaceAll(strings.Join(command[1:], " "), "/etc/loupe/config.yaml", config)),
		"--listen=127.0.0.1:0", "--set=health.listen=127.0.0.1:0", "--set=targets.binary_patterns=no-such-program")
	cmd := testcmd.Command(t, build(t, filepath.Base(command[0])), args...)
	const watchdog = time.Second
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds()))
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	receive := func(want string) {
		t.Helper()
		b := make([]byte, 4096)
		if err := socket.SetReadDeadline(time.Now().Add(testcmd.Patience)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(b)
		if got := strings.TrimSpace(string(b[:n])); err != nil || got != want {
			t.Errorf("received %q, %v; want %s", got, err, want)
		}
	}
	receive("READY=1")
	receive("WATCHDOG=1")
	receive("WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // KillSignal of systemd
		t.Fatal(err)
	}
	for {
		b := make([]byte, 4096)
		n, err := socket.Read(b)
		if err != nil || string(b[:n]) != "WATCHDOG=1" {
			if string(b[:n]) != "STOPPING=1" {
				t.Errorf("received %q, %v at the end", b[:n], err)
			}
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the agent ended with %v:\n%s", err, log.String())
	}
}
