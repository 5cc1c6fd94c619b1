package loupe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestInlineLimits attaches engine inline to a program that is not allowed what the engine needs: it is refused with the
// reason, nothing is left, and the engine attaches as soon as it is allowed.
func TestInlineLimits(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit func(t *testing.T, pid int) (lift func())
		want  string
	}{
		{"files", func(t *testing.T, pid int) func() { return limitTo(t, pid, unix.RLIMIT_NOFILE, 3) }, "RLIMIT_NOFILE"},
		{"address space", limitAddresses, "RLIMIT_AS"},
		{"no addresses near the code", fillReach, "free addresses between"},
		{"memory of the cgroup", limitMemory, "memory cgroup"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer"}), "1")
			expectWork(t, p)
			p.Command("rest")
			lift := test.limit(t, p.PID())
			before := holdingsOf(t, p.PID())
			s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: loupe.EngineInline})
			if err == nil {
				s.Close()
				t.Fatal("attached")
			}
			if text := err.Error(); !strings.Contains(text, test.want) || strings.Contains(text, "\n") || errors.Is(err, loupe.ErrExited) {
				t.Errorf("%v, want one line with %q", err, test.want)
			}
			holdingsOf(t, p.PID()).expectAs(t, before)
			if left, err := inline.Look(p.PID()); left != nil || err != nil {
				t.Errorf("left: %+v, %v", left, err)
			}
			lift()
			p.Command("work")
			expectWork(t, p)
			(&tormentor{pid: p.PID()}).torture(t, 0)
		})
	}
}

// limitTo lowers a process's soft limit.
func limitTo(t *testing.T, pid, resource int, most uint64) (lift func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, resource, &old, nil); err != nil {
			t.Error(err)
		}
	}
}

// limitAddresses leaves a process some memory to map, since its runtime crashes without, and less than the engine needs.
func limitAddresses(t *testing.T, pid int) (lift func()) {
	t.Helper()
	const left = 8 << 20
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	return limitTo(t, pid, unix.RLIMIT_AS, pages*uint64(os.Getpagesize())+left)
}

// fillReach reserves all addresses that a jump from a program's code reaches.
func fillReach(t *testing.T, pid int) (lift func()) {
	t.Helper()
	type piece struct{ addr, size uint64 }
	var pieces []piece
	change := func(f func(s *ptrace.Stopped) error) {
		t.Helper()
		err := ptrace.ErrBusy
		for errors.Is(err, ptrace.ErrBusy) {
			err = ptrace.Run(context.Background(), pid, ptrace.Options{One: true}, f)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(func(s *ptrace.Stopped) error {
		for size := uint64(1 << 30); size >= 4096; size /= 2 {
			for {
				addr, err := s.Gap(ptrace.Window{Lo: 1 << 16, Hi: 1 << 32}, int(size))
				if errors.Is(err, ptrace.ErrUnsupported) {
					break
				}
				if err != nil {
					return err
				}
				got, err := s.Call(unix.SYS_MMAP, addr, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, ^uint64(0), 0)
				if err != nil || got != addr {
					return fmt.Errorf("%d bytes at %#x: %w", size, addr, err)
				}
				pieces = append(pieces, piece{addr, size})
			}
		}
		return nil
	})
	return func() {
		change(func(s *ptrace.Stopped) error {
			for ; len(pieces) > 0; pieces = pieces[1:] {
				if err := s.Unmap(pieces[0].addr, int(pieces[0].size)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// limitMemory puts a process into a memory cgroup of its own that is nearly full.
func limitMemory(t *testing.T, pid int) (lift func()) {
	t.Helper()
	root, limit := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(root + "/memory/memory.limit_in_bytes"); err == nil {
		root, limit = root+"/memory", "memory.limit_in_bytes"
	} else if control, err := os.ReadFile(root + "/cgroup.subtree_control"); err != nil || !strings.Contains(string(control), "memory") {
		t.Skip("no memory cgroups can be made here")
	}
	dir, err := os.MkdirTemp(root, "loupe-test-")
	if err != nil {
		t.Skip("no memory cgroups can be made here: ", err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	write(dir+"/cgroup.procs", fmt.Sprint(pid))
	t.Cleanup(func() {
		write(root+"/cgroup.procs", fmt.Sprint(pid))
		err := os.Remove(dir)
		for begin := time.Now(); err != nil && time.Since(begin) < 10*time.Second; err = os.Remove(dir) {
			time.Sleep(time.Millisecond) // its threads leave one by one
		}
		if err != nil {
			t.Error(err)
		}
	})
	write(dir+"/"+limit, fmt.Sprint(1536<<10))
	return func() { write(dir+"/"+limit, "1073741824") }
}
