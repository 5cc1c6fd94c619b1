package ptrace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func init() {
	helpers["die"] = dieAtStep
	helpers["tracer"] = traceForever
}

// dieAtStep makes a call in the thread given and kills itself in the middle: die PID TID STEP CALL.
func dieAtStep(args []string) {
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(args[i])
	}
	for {
		s, err := Stop(context.Background(), n[0], Options{at: func(at step) {
			if at == step(n[2]) {
				unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		}})
		if err != nil {
			fmt.Println(err)
			return
		}
		err = s.Do(func() error {
			t := s.threads[n[1]]
			if t == nil {
				return fmt.Errorf("no thread %d", n[1])
			}
			_, err := s.call(t, uintptr(n[3]))
			return err
		})
		s.Release()
		if !errors.Is(err, ErrBusy) { // with a thread that another one has left
			fmt.Println("survived:", err)
			return
		}
	}
}

// threadsOf returns the threads of a process, and in how many of them signals are blocked. In one of every program that asks
// for signals by os/signal they are, but for those (runtime.ensureSigM): in the mixer that is SIGUSR1.
func threadsOf(t testing.TB, pid int) (tids []int, masked int) {
	t.Helper()
	dir, err := openProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := &Stopped{pid: pid, dir: dir}
	if tids, err = s.list(); err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		mask := statusField(dir, fmt.Sprintf("task/%d/status", tid), "SigBlk")
		if n, _ := strconv.ParseUint(mask, 16, 64); n != 0 && n|1<<(unix.SIGUSR1-1) == n {
			masked++
		}
	}
	return tids, masked
}

// TestKilledAtStep kills the tracer at every step of a call, in every thread in turn: the thread goes back by itself.
func TestKilledAtStep(t *testing.T) {
	for _, spec := range []testtarget.Spec{{}, {Cgo: true}} {
		t.Run(spec.String(), func(t *testing.T) {
			target := startMixer(t, spec, 1)
			all := 0
			for at := step(0); at < steps; at++ {
				tids, _ := threadsOf(t, target.PID())
				killed := 0
				for _, tid := range tids {
					cmd := helper(t, "die", strconv.Itoa(target.PID()), strconv.Itoa(tid), strconv.Itoa(int(at)), strconv.Itoa(unix.SYS_GETTID))
					out, err := cmd.Output()
					if err != nil && cmd.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() {
						killed++
					} else if !bytes.Contains(out, []byte("no thread")) {
						t.Errorf("step %d, thread %d: %v, %s", at, tid, err, out)
					}
				}
				if all += killed; killed == 0 { // threads come and go
					t.Errorf("step %d: no tracer was killed", at)
				}
				checkSum(t, target)
				awaitUnmasked(t, target.PID())
			}
			if all < 3*int(steps) {
				t.Errorf("only %d tracers were killed", all)
			}
		})
	}
}

// TestKilledWithSignal has a tracer's thread end while a thread is stopped for a signal: the signal comes all the same.
func TestKilledWithSignal(t *testing.T) {
	cmd := helper(t, "signals")
	cmd.Env = append(cmd.Env, "GODEBUG=asyncpreemptoff=1") // no other signals
	target := testtarget.StartCmd(t, cmd)
	for n := 1; n <= 10; n++ {
		s, err := newStopped(target.PID(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go onOwnThread(func() {
			defer close(ended)
			err = s.dieWithSignal()
		})
		<-ended
		s.dir.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Command(fmt.Sprintf("await %d", n)); got != fmt.Sprintf("got %d", n) {
			t.Fatal(got)
		}
	}
}

// dieWithSignal has a thread stop for a signal, and returns without letting go of it. All the time it reaps threads that have
// ended, as while another thread is slow to be seized.
func (s *Stopped) dieWithSignal() error {
	tids, err := s.list()
	if err != nil {
		return err
	}
	if _, err := s.seizeNew(context.Background(), tids); err != nil {
		return err
	}
	if err := unix.Tgkill(s.pid, s.pid, unix.SIGUSR1); err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		reap(s.pid)
		status, event, err := s.waitNow(s.pid)
		if err != nil {
			return err
		}
		if event == hasStopped && status.StopSignal() == unix.SIGUSR1 {
			return nil
		}
	}
	return errors.New("the thread does not stop for the signal")
}

// awaitUnmasked waits until no thread blocks signals. In a signal handler one does, for a moment.
func awaitUnmasked(t *testing.T, pid int) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if _, masked := threadsOf(t, pid); masked == 0 {
			return
		}
	}
	t.Error("a thread blocks signals that it did not block before")
}

// traceForever does to a process all that this package can, over and over: tracer PID. Bytes that an earlier one has left
// patched are put back first.
func traceForever(args []string) {
	pid, _ := strconv.Atoi(args[0])
	fmt.Println("ready")
	for i := 0; ; i++ {
		if err := traceOnce(pid, i%2 == 0); err != nil && !errors.Is(err, ErrBusy) {
			fmt.Println("error", err)
			return
		}
	}
}

func traceOnce(pid int, one bool) error {
	s, err := Stop(context.Background(), pid, Options{One: one})
	if err != nil {
		return err
	}
	defer s.Release()
	maps, err := s.Maps()
	if err != nil {
		return err
	}
	text := slices.IndexFunc(maps, procmap.Mapping.Exec) // of a static program
	near := windowAround(maps[text].Start, maps[text].End)
	shared, err := mapShared(s, near, 1<<16)
	if err != nil {
		return err
	}
	if err := shared.Close(); err != nil {
		return err
	}
	if err := s.Unmap(shared.Addr, 1<<16); err != nil {
		return err
	}
	if one {
		return nil
	}
	code, err := mapProgram(s, near, 4096, 0)
	if err != nil {
		return err
	}
	// The page stays: a thread may be in it.
	return patchAndBack(s, code)
}

// TestKilled kills tracers at any time.
func TestKilled(t *testing.T) {
	target := startMixer(t, testtarget.Spec{}, 1)
	for range 40 {
		cmd := helper(t, "tracer", strconv.Itoa(target.PID()))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var b [200]byte
		n, _ := out.Read(b[:])
		time.Sleep(time.Duration(rand.IntN(8000)) * time.Microsecond)
		cmd.Process.Kill()
		rest, _ := out.Read(b[n:])
		cmd.Wait()
		if got := string(b[:n+rest]); got != "ready\n" {
			t.Fatalf("the tracer said %q", got)
		}
	}
	checkSum(t, target)
	awaitUnmasked(t, target.PID())
}
