package inline

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
)

// TestFork forks a child that hits an enabled probe. It must leave alone what it shares with its parent, thanks to memory
// that is wiped; when that is not wiped, the hits are seen, which shows that the test would see them.
func TestFork(t *testing.T) {
	for _, wipe := range []bool{true, false} {
		w := newWorld(t, nil)
		if wipe {
			if err := unix.Madvise(w.private, unix.MADV_WIPEONFORK); err != nil {
				t.Fatal(err)
			}
		}
		th := w.thread(7, 1234, 1)
		body := w.probe(gopark)
		th.hit(body)
		w.drain()
		pid, errno := forkAndHit(body, &th.r)
		if errno != 0 {
			t.Fatal(errno)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(int(pid), &status, 0, nil); err != nil || !status.Exited() || status.ExitStatus() != 0 {
			t.Fatalf("the child: status %v, %v", status, err)
		}
		th.hit(body)
		want := map[bool]int{true: 1, false: 4}[wipe]
		if n := len(w.drain()); n != want {
			t.Errorf("wiped %v: %d records, want %d", wipe, n, want)
		}
	}
}

// forkAndHit forks. The child hits a probe three times and ends; it calls nothing that needs the runtime.
//
//go:norace
//go:nosplit
func forkAndHit(body uintptr, r *trampoline.Registers) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall(syscall.SYS_FORK, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	trampoline.Call(body, r)
	trampoline.Call(body, r)
	trampoline.Call(body, r)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// TestAnyG has the current g in each register that it can be in.
func TestAnyG(t *testing.T) {
	w := newWorld(t, nil)
	for _, reg := range []uint8{rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r14, 15} {
		th := w.thread(7+uint64(reg), 1234, 1)
		th.setG(0xdead)
		th.r.In[reg] = th.g
		th.hit(w.body(Place{Probe: csrc.ProbesLoupeProbePROBE_exitsyscall, G: reg, SPAdjust: -16}))
		if e, _ := w.events(); len(e) != 1 || e[0].G != 7+uint64(reg) || e[0].Tid != 1234 {
			t.Errorf("g in register %d: %+v", reg, e)
		}
		if th.r.Out[reg] != th.g {
			t.Errorf("register %d was changed", reg)
		}
	}
}
