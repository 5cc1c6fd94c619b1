package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// A profile is a seccomp profile of a container runtime (the OCI runtime specification, linux.seccomp).
type profile struct {
	DefaultAction   string
	DefaultErrnoRet uint32
	Syscalls        []struct {
		Names    []string
		Action   string
		ErrnoRet uint32
		Args     []struct {
			Index           uint32
			Value, ValueTwo uint64
			Op              string
		}
	}
}

func readProfile(t *testing.T) profile {
	t.Helper()
	var p profile
	text, err := os.ReadFile("seccomp/loupe-agent.json")
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// numbers returns the system calls of an architecture by their names, from the module golang.org/x/sys.
func numbers(t *testing.T, arch string) map[string]uint32 {
	t.Helper()
	status, dir, stderr := testcmd.Run(t, testcmd.Command(t, "go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix"))
	if status != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), "zsysnum_linux_"+arch+".go"))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]uint32{}
	for _, m := range regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		calls[strings.ToLower(m[1])] = uint32(n)
	}
	return calls
}

// compile returns the program of a profile, without some system calls, as a container runtime makes it.
func compile(t *testing.T, p profile, without ...string) []unix.SockFilter {
	t.Helper()
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		args  = 16 // offset of the arguments in struct seccomp_data
	)
	calls := numbers(t, runtime.GOARCH)
	if p.DefaultAction != "SCMP_ACT_ERRNO" {
		t.Fatalf("default action %s", p.DefaultAction)
	}
	fail := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | p.DefaultErrnoRet}
	program := []unix.SockFilter{{Code: load}} // the number of the call
	for _, rule := range p.Syscalls {
		action := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}
		if rule.Action == "SCMP_ACT_ERRNO" {
			action.K = unix.SECCOMP_RET_ERRNO | rule.ErrnoRet
		}
		for _, name := range rule.Names {
			number, ok := calls[name]
			if !ok || slices.Contains(without, name) {
				continue
			}
			if len(rule.Args) == 0 {
				program = append(program, unix.SockFilter{Code: equal, K: number, Jf: 1}, action)
				continue
			}
			a := rule.Args[0]
			if len(rule.Args) != 1 || a.Op != "SCMP_CMP_MASKED_EQ" || a.Value>>32 != 0 {
				t.Fatalf("rule of %s", name)
			}
			program = append(program, unix.SockFilter{Code: equal, K: number, Jf: 5}, unix.SockFilter{Code: load, K: args + 8*a.Index},
				unix.SockFilter{Code: and, K: uint32(a.Value)}, unix.SockFilter{Code: equal, K: uint32(a.ValueTwo), Jf: 1}, action, fail)
		}
	}
	return append(program, fail)
}

// TestSeccompNames checks that each name of the profile is a system call.
func TestSeccompNames(t *testing.T) {
	amd64, arm64 := numbers(t, "amd64"), numbers(t, "arm64")
	seen := map[string]bool{}
	for _, rule := range readProfile(t).Syscalls {
		for _, name := range rule.Names {
			_, onAMD := amd64[name]
			_, onARM := arm64[name]
			if !onAMD && !onARM || seen[name] {
				t.Errorf("%s is no system call, or is there twice", name)
			}
			seen[name] = true
		}
	}
	for _, name := range []string{"mount", "setns", "unshare", "init_module", "kexec_load", "keyctl", "chroot"} {
		if seen[name] {
			t.Errorf("the profile permits %s", name)
		}
	}
}

// TestSeccomp does the work of the agent under the profile, in a container with the capabilities of the DaemonSet. Without a system call
// that the work requires it fails, so the profile is in force.
func TestSeccomp(t *testing.T) {
	needRoot(t)
	t.Parallel()
	pid := startSample(t, 65533, 0o755)
	loupe := build(t, "loupe")
	p := readProfile(t)
	filter := compile(t, p)
	commands := [][]string{{"report", "--interval", "100ms", pid}, {"ps"}, {"doctor", pid}}
	for _, w := range works {
		if !w.private {
			commands = append(commands, append(slices.Clone(w.args), pid))
		}
	}
	for _, args := range commands {
		status, _, stderr := testcmd.Run(t, inContainer(t, loupe, sets[0].caps, filter, args...))
		if status != 0 && !strings.Contains(stderr, "no samples") {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
	for call, work := range map[string]int{"process_vm_readv": 0, "bpf": 1, "ptrace": 2} {
		args := append(slices.Clone(works[work].args), pid)
		if status, _, _ := testcmd.Run(t, inContainer(t, loupe, sets[0].caps, compile(t, p, call), args...)); status == 0 {
			t.Errorf("%s works without %s", args, call)
		}
	}
}
