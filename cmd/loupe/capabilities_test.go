package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

const nobody, somebody = 65534, 65533 // users

// needUsers skips a test that cannot run programs as other users.
func needUsers(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("choosing users and capabilities needs root")
	}
	root, err := os.Stat("/")
	if err != nil {
		t.Fatal(err)
	}
	if root.Mode().Perm()&0o001 == 0 { // as in some chroots
		t.Skipf("other users may not enter the root directory here, its mode is %v", root.Mode().Perm())
	}
}

// startSampleOf starts the sample program as a user.
func startSampleOf(t *testing.T, uid uint32) (pid string) {
	t.Helper()
	cmd := testcmd.Within(t, 0, loupe, "demo-program")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return strconv.Itoa(startTarget(t, cmd))
}

// asNobody is a command of loupe that runs as user nobody with some capabilities.
func asNobody(t *testing.T, caps []uintptr, args ...string) *exec.Cmd {
	cmd := testcmd.Command(t, loupe, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: caps}
	return cmd
}

// doctorSays returns which abilities doctor reports as available for a target.
func doctorSays(t *testing.T, cmd *exec.Cmd) map[string]bool {
	t.Helper()
	_, stdout, _ := testcmd.Run(t, cmd)
	return abilities(t, stdout)
}

// abilities returns which abilities the output of doctor --json reports as available.
func abilities(t *testing.T, stdout string) map[string]bool {
	t.Helper()
	var r struct {
		Abilities []struct {
			Name            string
			RequirementsMet bool
		}
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("doctor: %v: %s", err, stdout)
	}
	says := map[string]bool{}
	for _, a := range r.Abilities {
		says[a.Name] = a.RequirementsMet
	}
	return says
}

// attempts are what to try with a target, by the name of the ability in doctor's report.
var attempts = []struct {
	ability string
	args    []string
}{
	{"snapshot", []string{"goroutines", "-q"}},
	{"pause", []string{"goroutines", "-q", "--pause"}},
	{"inline", []string{"trace", "-q", "--engine", "inline", "--duration", "10ms", "--kinds", "GoCreate"}},
	{"uprobe", []string{"trace", "-q", "--engine", "uprobe", "--duration", "10ms", "--kinds", "GoCreate"}},
}

// TestCapabilities tries every way to observe with some capabilities only, on a process of the same user and of another one:
// it works with those that docs/REFERENCE.md names, doctor says so beforehand, and what is missing is said in one line.
func TestCapabilities(t *testing.T) {
	needUsers(t)
	for name, caps := range map[string][]uintptr{
		"none": nil, "SYS_PTRACE": {unix.CAP_SYS_PTRACE}, "BPF, PERFMON": {unix.CAP_BPF, unix.CAP_PERFMON},
		"SYS_PTRACE, BPF, PERFMON": {unix.CAP_SYS_PTRACE, unix.CAP_BPF, unix.CAP_PERFMON},
		"SYS_PTRACE, BPF":          {unix.CAP_SYS_PTRACE, unix.CAP_BPF},
	} {
		for _, uid := range []uint32{nobody, somebody} {
			t.Run(fmt.Sprintf("%s/user %d", name, uid), func(t *testing.T) {
				pid := startSampleOf(t, uid)
				trace := slices.Contains(caps, unix.CAP_SYS_PTRACE) || uid == nobody && !yama()
				bpf := slices.Contains(caps, unix.CAP_BPF) && slices.Contains(caps, unix.CAP_PERFMON)
				says := doctorSays(t, asNobody(t, caps, "doctor", "--json", pid))
				for _, a := range attempts {
					want := trace && (a.ability != "uprobe" || bpf)
					status, _, stderr := testcmd.Run(t, asNobody(t, caps, append(a.args, pid)...))
					if (status == 0) != want || says[a.ability] != want || status != 0 && (status != 3 || strings.Count(stderr, "\n") != 1) {
						t.Errorf("%s: status %d, doctor says %v, want %v: %s", a.ability, status, says[a.ability], want, stderr)
					}
					if status == 0 {
						continue
					}
					if missing := uid != nobody && !trace; strings.Contains(stderr, "CAP_SYS_PTRACE") != missing && !yama() {
						t.Errorf("%s: CAP_SYS_PTRACE is missing: %v: %s", a.ability, missing, stderr)
					}
					if missing := a.ability == "uprobe" && !bpf; strings.Contains(stderr, "CAP_PERFMON") != missing && !yama() {
						t.Errorf("%s: CAP_PERFMON is missing: %v: %s", a.ability, missing, stderr)
					}
				}
				if status, stdout, _ := run(t, "doctor", pid); status != 0 || strings.Contains(stdout, "left") {
					t.Errorf("afterwards doctor says\n%s", stdout)
				}
			})
		}
	}
}

// yama reports whether the kernel restricts ptrace for a user's own processes.
func yama() bool {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return err == nil && strings.TrimSpace(string(b)) != "0"
}

// TestUnreadableExecutable: CAP_SYS_PTRACE does not open an executable that only its owner may read.
func TestUnreadableExecutable(t *testing.T) {
	needUsers(t)
	b, err := os.ReadFile(loupe)
	if err != nil {
		t.Fatal(err)
	}
	released := loupe
	defer func() { loupe = released }()
	private := released + "-private"
	if err := os.WriteFile(private, b, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(private, somebody, somebody); err != nil {
		t.Fatal(err)
	}
	loupe = private
	pid := startSampleOf(t, somebody)
	loupe = released
	for _, caps := range [][]uintptr{{unix.CAP_SYS_PTRACE}, {unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}} {
		status, _, stderr := testcmd.Run(t, asNobody(t, caps, "goroutines", "-q", pid))
		if readable := len(caps) == 2; (status == 0) != readable || !readable && (strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, "its code is in a file that this user may not read: "+private+"; run with sudo, or with CAP_DAC_READ_SEARCH")) {
			t.Errorf("capabilities %v: status %d, %s", caps, status, stderr)
		}
	}
}

// TestTraced asks for a process that strace or gdb traces: what needs ptrace is refused with the tracer's name, and the rest works.
func TestTraced(t *testing.T) {
	pid := strconv.Itoa(startSample(t))
	for _, tracer := range [][]string{{"strace", "-f", "-q", "-o", "/dev/null", "-p", pid},
		{"gdb", "-nx", "-q", "-batch", "-p", pid, "-ex", "continue"}} {
		cmd := testcmd.Command(t, tracer[0], tracer[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(testcmd.Patience); ; time.Sleep(10 * time.Millisecond) {
			status, err := os.ReadFile("/proc/" + pid + "/status")
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("%s does not attach: %v", tracer[0], err)
			}
			if strings.Contains(string(status), fmt.Sprintf("TracerPid:\t%d\n", cmd.Process.Pid)) && !strings.Contains(string(status), "State:\tt") {
				break
			}
		}
		words := fmt.Sprintf("%s (process %d)", tracer[0], cmd.Process.Pid)
		says := doctorSays(t, testcmd.Command(t, loupe, "doctor", "--json", pid))
		for _, a := range attempts {
			status, _, stderr := testcmd.Run(t, testcmd.Command(t, loupe, append(a.args, pid)...))
			want := a.ability == "snapshot" || a.ability == "uprobe"
			if (status == 0) != want || says[a.ability] != want {
				t.Errorf("%s under %s: status %d, doctor says %v, want %v: %s", a.ability, tracer[0], status, says[a.ability], want, stderr)
			}
			remedy := words + " already traces it; detach " + words + " first"
			if a.ability == "inline" {
				remedy += ", or use --engine uprobe"
			}
			if !want && (strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, remedy+"\n")) {
				t.Errorf("%s under %s: %q, want %q", a.ability, tracer[0], stderr, remedy)
			}
		}
		cmd.Process.Signal(os.Interrupt)
		time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		cmd.Wait()
	}
}
