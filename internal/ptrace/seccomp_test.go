package ptrace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func init() {
	helpers["confined"] = confined
	helpers["attacher"] = attacher
	helpers["container"] = container
	helpers["idle"] = func([]string) { io.Copy(io.Discard, os.Stdin) }
}

// aRule is what a seccomp filter does with one system call; all others are allowed.
type aRule struct {
	call   uint32
	exec   bool // only with PROT_EXEC among the flags of its third argument
	action uint32
}

const (
	killProcess = 0x80000000
	trap        = 0x00030000
	errnoEPERM  = 0x00050001
	allow       = 0x7fff0000
)

var rules = map[string]aRule{
	"harmless":          {unix.SYS_KEXEC_LOAD, false, killProcess},
	"kill memfd_create": {unix.SYS_MEMFD_CREATE, false, killProcess},
	"trap memfd_create": {unix.SYS_MEMFD_CREATE, false, trap},
	"deny memfd_create": {unix.SYS_MEMFD_CREATE, false, errnoEPERM},
	"kill mmap exec":    {unix.SYS_MMAP, true, killProcess},
	"deny mmap exec":    {unix.SYS_MMAP, true, errnoEPERM},
	"kill prctl":        {unix.SYS_PRCTL, false, killProcess},
}

// confine puts all threads of this process under a filter.
func confine(r aRule) error {
	const (
		number = 0
		flags  = 16 + 2*8 // the lower half of the third argument
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		set    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret    = unix.BPF_RET | unix.BPF_K
	)
	mask := uint32(0xffffffff)
	if r.exec {
		mask = unix.PROT_EXEC
	}
	prog := []unix.SockFilter{
		{Code: load, K: number},
		{Code: equal, K: r.call, Jf: 3},
		{Code: load, K: flags},
		{Code: set, K: mask, Jf: 1},
		{Code: ret, K: r.action},
		{Code: ret, K: allow},
	}
	if !r.exec {
		prog = append(prog[:2:2], unix.SockFilter{Code: ret, K: r.action}, unix.SockFilter{Code: ret, K: allow})
		prog[1].Jf = 1
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	const setFilter, toAllThreads = 1, 1
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, setFilter, toAllThreads, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	return nil
}

// confined is a program under a filter that answers each line with it: confined RULE.
func confined(args []string) {
	if err := confine(rules[args[0]]); err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Printf("ready %d\n", os.Getpid())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(in.Text())
	}
}

// attacher maps all kinds of memory in a process and says what came of it: attacher PID.
func attacher(args []string) {
	pid, _ := strconv.Atoi(args[0])
	fmt.Println(attach(pid))
}

func attach(pid int) string {
	for {
		trial, err := NewTrial(context.Background(), pid)
		if err == nil {
			err = mapAll(pid, trial)
		}
		if err == nil {
			return "attached"
		}
		if !errors.Is(err, ErrBusy) {
			return fmt.Sprintf("seccomp %v, denied %v: %v", errors.Is(err, ErrSeccomp), errors.Is(err, ErrPermission), err)
		}
	}
}

func mapAll(pid int, trial *Trial) error {
	s, err := Stop(context.Background(), pid, Options{Trial: trial})
	if err != nil {
		return err
	}
	defer s.Release()
	return s.tryAll()
}

// container is a process under a filter that starts another one, which inherits it, and attaches to that: container RULE.
func container(args []string) {
	if err := confine(rules[args[0]]); err != nil {
		fmt.Println("error", err)
		return
	}
	cmd := testcmd.Command(nil, "cat")
	if rules[args[0]].exec { // which a dynamically linked program needs
		cmd = helper(nil, "idle")
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Println("error", err)
		return
	}
	said := attach(cmd.Process.Pid)
	in.Close()
	if err := cmd.Wait(); err != nil {
		said += fmt.Sprintf("; and the process: %v", err)
	}
	fmt.Println(said)
}

// asNobody has a command run without privileges: as user nobody, or where others may not even enter the root directory, as
// in some chroots, as root without any capability. When the tests have no privileges, it has none anyway.
func asNobody(tb testing.TB, cmd *exec.Cmd) *exec.Cmd {
	root, err := os.Stat("/")
	if os.Getuid() == 0 && (err != nil || root.Mode().Perm()&0o001 == 0) {
		without := testcmd.Within(tb, 0, "setpriv", append([]string{"--bounding-set=-all", "--inh-caps=-all", os.Args[0]}, cmd.Args[1:]...)...)
		without.Env = cmd.Env
		return without
	}
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

func said(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestSeccomp attaches to programs under filters of their own. With the privilege the filter is suspended, unless it would end
// the program when the tracer is killed; without it the program is refused. It is never killed.
func TestSeccomp(t *testing.T) {
	for name := range rules {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() == 0 {
				target := testtarget.StartCmd(t, helper(t, "confined", name))
				want := "attached"
				if action := rules[name].action; name != "harmless" && action != errnoEPERM {
					want = "seccomp true"
				}
				if got := attach(target.PID()); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
					t.Errorf("with privileges: %s, want %s", got, want)
				}
				if got := target.Command("alive"); got != "alive" {
					t.Error(got)
				}
			}
			target := testtarget.StartCmd(t, asNobody(t, helper(t, "confined", name)))
			got := said(t, asNobody(t, helper(t, "attacher", strconv.Itoa(target.PID()))))
			if !strings.HasPrefix(got, "seccomp true") || strings.Contains(got, "\n") {
				t.Errorf("without privileges: %s", got)
			}
			if got := target.Command("alive"); got != "alive" {
				t.Error(got)
			}
		})
	}
}

// TestSeccompShared attaches from under the same filter: what it does with the calls is tried first.
func TestSeccompShared(t *testing.T) {
	for name, want := range map[string]string{
		"harmless":          "attached",
		"kill memfd_create": "seccomp true, denied false",
		"trap memfd_create": "seccomp true, denied false",
		"deny memfd_create": "seccomp true, denied true",
		"kill mmap exec":    "seccomp true, denied false",
		"deny mmap exec":    "seccomp true, denied true",
		"kill prctl":        "seccomp true, denied false",
	} {
		for _, cmd := range []*exec.Cmd{helper(t, "container", name), asNobody(t, helper(t, "container", name))} {
			if got := said(t, cmd); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") || strings.Contains(got, "and the process") {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// TestKilledUnderFilter kills the tracer at every step of a call in a program under a filter. A suspended filter is in force again
// from then on: where it would end the program, the call must not have been begun.
func TestKilledUnderFilter(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("without CAP_SYS_ADMIN such a program is refused")
	}
	for name, refused := range map[string]bool{
		"harmless": false, "deny memfd_create": false, "kill memfd_create": true, "trap memfd_create": true,
	} {
		t.Run(name, func(t *testing.T) {
			target := testtarget.StartCmd(t, helper(t, "confined", name))
			for at := step(0); at < steps; at++ {
				pid := strconv.Itoa(target.PID())
				out, err := helper(t, "die", pid, pid, strconv.Itoa(int(at)), strconv.Itoa(unix.SYS_MEMFD_CREATE)).Output()
				if killed := err != nil; killed == refused || refused && !strings.Contains(string(out), ErrSeccomp.Error()) {
					t.Errorf("step %d: %v, %s", at, err, out)
				}
				if got := target.Command("alive"); got != "alive" {
					t.Fatal(got)
				}
			}
		})
	}
}
