package deploy

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// needRoot skips a test that makes containers.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("namespaces and capabilities need root")
	}
	if status, _, stderr := testcmd.Run(t, testcmd.Command(t, "unshare", "--mount", "true")); status != 0 {
		t.Skipf("no private mounts can be made here, as in a chroot: %s", strings.TrimSpace(stderr))
	}
}

// startSample starts the sample program as a user and returns its PID when it runs. mode is that of the executable.
func startSample(t *testing.T, uid uint32, mode os.FileMode) string {
	t.Helper()
	text, err := os.ReadFile(build(t, "loupe"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(builds, "sample-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sample")
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	// The user may not enter the directories above. Its root is the directory, so that no path leads through them.
	cmd := testcmd.Within(t, 0, "/"+filepath.Base(path), "demo-program")
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=shop")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return started(t, cmd)
}

// started starts a program that prints a line when it runs, and that ends with its stdin.
func started(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := testcmd.StartTied(cmd, syscall.SIGKILL, func() { _ = cmd.Wait() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		<-ended
	})
	if !bufio.NewScanner(stdout).Scan() {
		t.Fatal("the sample program printed nothing")
	}
	return strconv.Itoa(cmd.Process.Pid)
}

// sets are the capabilities of the columns of the table in README.md.
var sets = []struct {
	title string
	caps  []int
}{
	{"BPF, PERFMON, SYS_PTRACE", []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE}},
	{"without BPF", []int{unix.CAP_PERFMON, unix.CAP_SYS_PTRACE}},
	{"without PERFMON", []int{unix.CAP_BPF, unix.CAP_SYS_PTRACE}},
	{"without SYS_PTRACE", []int{unix.CAP_BPF, unix.CAP_PERFMON}},
	{"with DAC_READ_SEARCH", []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}},
}

// works are the rows: what the agent does, and a command of Loupe that does the same by the same packages.
var works = []struct {
	title   string
	private bool // of a process whose executable only its owner may read
	args    []string
}{
	{"memory: goroutines, heap, garbage collection", false, []string{"goroutines", "-q"}},
	{"events by engine uprobe", false, []string{"trace", "-q", "--engine", "uprobe", "--duration", "20ms", "--kinds", "GoCreate"}},
	{"events by engine inline", false, []string{"trace", "-q", "--engine", "inline", "--duration", "20ms", "--kinds", "GoCreate"}},
	{"CPU profiles", false, []string{"profile", "-q", "--type", "cpu", "--rate", "999", "--duration", "200ms", "-o", "-"}},
	{"any of these, if only the owner may read the executable", true, []string{"goroutines", "-q"}},
}

// needPerfEvents skips a test on machines that forbid what the table in README.md has: perf events of processes in user mode.
func needPerfEvents(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if level, parseErr := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || parseErr != nil || level > 2 {
		t.Skip("requires kernel.perf_event_paranoid of at most 2")
	}
}

// TestCapabilities measures which capabilities the work of the agent requires, in a container as that of the DaemonSet, for processes of
// another user. README.md has the results. Each refusal names what is missing.
func TestCapabilities(t *testing.T) {
	needRoot(t)
	needPerfEvents(t)
	t.Parallel()
	const other = 65533
	public, private := startSample(t, other, 0o755), startSample(t, other, 0o700)
	loupe := build(t, "loupe")
	rows := []string{"| the agent reads |", "|---|"}
	for _, s := range sets {
		rows[0] += " " + s.title + " |"
		rows[1] += "---|"
	}
	for _, w := range works {
		row := "| " + w.title + " |"
		for _, s := range sets {
			pid := public
			if w.private {
				pid = private
			}
			status, _, stderr := testcmd.Run(t, inContainer(t, loupe, s.caps, nil, append(w.args, pid)...))
			row += " " + outcome(t, status, stderr) + " |"
		}
		rows = append(rows, row)
	}
	table := strings.Join(rows, "\n") + "\n"
	if text, err := os.ReadFile("README.md"); err != nil || !strings.Contains(string(text), table) {
		t.Errorf("README.md lacks the measured table (%v):\n%s", err, table)
	}
}

// outcome returns a cell of the table: "yes", or the capability that an error of one line names.
func outcome(t *testing.T, status int, stderr string) string {
	t.Helper()
	if status == 0 || status == 1 && strings.Contains(stderr, "no samples") { // the program happened to be idle
		return "yes"
	}
	if status != 3 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d: %s", status, stderr)
	}
	for _, name := range []string{"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_BPF", "CAP_PERFMON"} {
		if strings.Contains(stderr, name) {
			return "no: " + strings.TrimPrefix(name, "CAP_")
		}
	}
	t.Errorf("no capability is named: %s", stderr)
	return "no"
}
