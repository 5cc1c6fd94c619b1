package ptrace

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestRefused asks for processes that cannot be stopped.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	refused := func(name string, pid int, want error, text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond) // threads of this process may end, and are waited for
		defer cancel()
		for _, one := range []bool{false, true} {
			s, err := Stop(ctx, pid, Options{One: one})
			if err == nil {
				s.Release()
				t.Errorf("%s: stopped it", name)
				continue
			}
			wantError(t, name, err, want)
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v does not say %q", name, err, text)
			}
		}
	}
	refused("no process", 1<<30, ErrNoProcess, "process 1073741824")
	refused("this process", os.Getpid(), ErrUnsupported, "itself")

	for _, one := range []bool{false, true} {
		s := mustStop(t, target.PID(), Options{One: one})
		refused("traced already", target.PID(), ErrPermission, "already traces it")
		s.Release()
	}

	zombie := testcmd.Command(t, "true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	for taskStateOf(zombie.Process.Pid) != 'Z' {
		time.Sleep(time.Millisecond)
	}
	refused("zombie", zombie.Process.Pid, ErrExited, "")

	for _, pid := range kernelThreads(t) {
		refused("kernel thread", pid, ErrUnsupported, "kernel")
	}

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if s, err := Stop(canceled, target.PID(), Options{}); err == nil {
		s.Release() // it had stopped at once
	} else {
		wantError(t, "canceled", err, context.Canceled)
	}
	target.Command("num") // it goes on
}

// TestOwnTracerEnds stops a process that a thread of this process traces until it ends, which is what remains of a stop during
// which the process called execve.
func TestOwnTracerEnds(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	for _, one := range []bool{false, true} {
		seized := make(chan error)
		go onOwnThread(func() {
			_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(target.PID()), 0, 0, 0, 0)
			if errno != 0 {
				seized <- errno
				return
			}
			seized <- nil
			time.Sleep(10 * refusedTime)
		})
		if err := <-seized; err != nil {
			t.Fatal(err)
		}
		mustStop(t, target.PID(), Options{One: one}).Release()
	}
	target.Command("num")
}

func taskStateOf(pid int) byte {
	dir, err := openProc(pid)
	if err != nil {
		return 0
	}
	defer dir.Close()
	return taskState(dir, pid)
}

// TestKernelThread distinguishes kernel threads from processes that are exiting and have released their memory.
func TestKernelThread(t *testing.T) {
	for stat, want := range map[string]bool{
		"S 0 0 0 0 -1 2129984 0": true,  // kthreadd
		"R 1 9 9 0 -1 4194564 0": false, // PF_EXITING
		"R 1 9 9 0 -1 4194560 0": false,
		"R 1 9 9 0 -1":           false,
		"":                       false,
	} {
		if got := isKernelThread(strings.Fields(stat)); got != want {
			t.Errorf("%q: %v", stat, got)
		}
	}
}

// kernelThreads returns one, where this PID namespace has some.
func kernelThreads(t *testing.T) []int {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	const kthread = 1 << 21 // PF_KTHREAD of include/linux/sched.h
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		dir, err := openProc(pid)
		if err != nil {
			continue
		}
		f := statFields(dir, pid)
		dir.Close()
		if len(f) > 6 {
			if flags, _ := strconv.ParseUint(f[6], 10, 64); flags&kthread != 0 {
				return []int{pid}
			}
		}
	}
	t.Log("there are no threads of the kernel to ask for")
	return nil
}

// TestAnotherUser attaches to a process of another user.
func TestAnotherUser(t *testing.T) {
	pid := 1
	if os.Getuid() == 0 {
		pid = testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"})).PID()
	}
	got := said(t, asNobody(t, helper(t, "attacher", strconv.Itoa(pid))))
	if !strings.HasPrefix(got, "seccomp false, denied true") || strings.Contains(got, "\n") {
		t.Error(got)
	}
}

// TestOtherArchitecture stops a 32-bit program, and refuses to have it make 64-bit system calls.
func TestOtherArchitecture(t *testing.T) {
	foreign := map[string]string{"amd64": "386", "arm64": "arm"}[goarch()]
	testtarget.Whole(t, "a program for "+foreign)
	path := testtarget.Build(t, testtarget.Spec{Program: "tiny", Arch: foreign})
	if out, err := testcmd.Combined(testcmd.Command(t, path)); err != nil {
		t.Logf("this kernel runs no programs for %s: %v %s", foreign, err, out)
		return
	}
	target := testtarget.Start(t, path)
	s := mustStop(t, target.PID(), Options{})
	_, err := s.Call(unix.SYS_GETPID)
	wantError(t, "a call", err, ErrUnsupported)
	text := textRange(t, target.PID())
	err = s.Patch([]Edit{{text.Start, []byte("\x7fELF"), []byte("\x7fELF")}}, false)
	wantError(t, "a patch", err, ErrUnsupported)
	// The executable alone does not tell: a thread may change.
	err = s.Do(func() error {
		s.supported = nil
		th, err := s.caller()
		if err != nil {
			return err
		}
		_, err = s.call(th, unix.SYS_GETPID)
		return err
	})
	wantError(t, "a call in 32-bit code", err, ErrUnsupported)
	s.Release()
	target.Command("num")
}
