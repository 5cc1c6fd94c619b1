package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// filterEnv has this program put itself under a seccomp filter, and become the command that its arguments name. Its value is a
// system call and what the filter does with it; it allows all others.
const filterEnv = "LOUPE_TEST_FILTER"

// serveFiltered is the program that filterEnv describes.
func serveFiltered() {
	var call, action uint32
	_, err := fmt.Sscan(os.Getenv(filterEnv), &call, &action)
	os.Unsetenv(filterEnv)
	runtime.LockOSThread()
	if err == nil {
		err = filter(call, action)
	}
	var path string
	if err == nil {
		path, err = exec.LookPath(os.Args[1])
	}
	if err == nil {
		err = syscall.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// filter puts this thread under a seccomp filter.
func filter(call, action uint32) error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	code := []unix.SockFilter{
		{Code: load}, // the number of the call
		{Code: equal, K: call, Jf: 1},
		{Code: ret, K: action},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return errno
	}
	return nil
}

// TestSeccompTarget observes programs under seccomp filters, with CAP_SYS_ADMIN and without any capability: doctor lists engine
// inline as available if and only if it attaches, and the programs live on.
func TestSeccompTarget(t *testing.T) {
	needUsers(t)
	for name, test := range map[string]struct {
		call, action uint32
		inline       bool // for root
	}{
		"harmless":          {unix.SYS_KEXEC_LOAD, unix.SECCOMP_RET_KILL_PROCESS, true},
		"kill memfd_create": {unix.SYS_MEMFD_CREATE, unix.SECCOMP_RET_KILL_PROCESS, false},
		"trap memfd_create": {unix.SYS_MEMFD_CREATE, unix.SECCOMP_RET_TRAP, false},
		"deny memfd_create": {unix.SYS_MEMFD_CREATE, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), true},
	} {
		for _, uid := range []uint32{0, nobody} {
			t.Run(fmt.Sprintf("%s/user %d", name, uid), func(t *testing.T) {
				id := fmt.Sprint(uid)
				cmd := testcmd.Within(t, 0, os.Args[0], "setpriv", "--reuid", id, "--regid", id, "--clear-groups", loupe, "demo-program")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", filterEnv, test.call, test.action))
				pid := strconv.Itoa(startTarget(t, cmd))
				loupeAs := func(args ...string) (status int, stdout, stderr string) {
					if uid == 0 {
						return run(t, args...)
					}
					return testcmd.Run(t, asNobody(t, nil, args...))
				}
				want := test.inline && uid == 0
				_, stdout, _ := loupeAs("doctor", "--json", pid)
				if says := abilities(t, stdout)["inline"]; says != want {
					t.Errorf("doctor says %v, want %v: %s", says, want, stdout)
				}
				status, _, stderr := loupeAs("trace", "-q", "--engine", "inline", "--duration", "10ms", pid)
				if (status == 0) != want || status != 0 && strings.Count(stderr, "\n") != 1 {
					t.Errorf("trace: status %d, %s", status, stderr)
				}
				const reason = "forbidden by its seccomp filter"
				if !want && (!strings.Contains(stderr, reason) || !strings.Contains(stdout, reason)) {
					t.Errorf("trace says %q, doctor\n%s", stderr, stdout)
				}
				status, _, stderr = loupeAs("allocs", "-q", "--engine", "inline", "--duration", "100ms", pid)
				if (status == 0) != want || status != 0 && (strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, reason)) {
					t.Errorf("allocs: status %d, %s", status, stderr)
				}
				for _, args := range [][]string{ // which only read
					{"goroutines"}, {"mem"}, {"profile", "--type", "wall", "--duration", "100ms", "-o", "-"},
				} {
					if status, out, stderr := loupeAs(append(args, "-q", pid)...); status != 0 || out == "" {
						t.Errorf("%s: status %d, %d bytes, %s", args, status, len(out), stderr)
					}
				}
				testcmd.UntilSeen(t, time.Second, func(d time.Duration) error { // the program uses some percent of a processor
					status, out, stderr := loupeAs("profile", "--type", "cpu", "--rate", "999", "--duration", d.String(), "-o", "-", "-q", pid)
					if strings.Contains(stderr, "no samples: ") {
						return errors.New(stderr)
					}
					if status != 0 || out == "" {
						t.Errorf("CPU profile of %v: status %d, %d bytes, %s", d, status, len(out), stderr)
					}
					return nil
				})
			})
		}
	}
}
