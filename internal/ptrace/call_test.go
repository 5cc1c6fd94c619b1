package ptrace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/child"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestCalls lets a busy program make hundreds of system calls, with all its threads stopped and with one.
func TestCalls(t *testing.T) {
	for _, spec := range testtarget.SpecsAmong(t, testtarget.Spec{}, testtarget.Spec{Cgo: true}, testtarget.Spec{PIE: true, Stripped: true}, testtarget.Spec{Go: "1.16.15"}) {
		t.Run(spec.String(), func(t *testing.T) {
			target := startMixer(t, spec, 2)
			before := lookForLeftovers(t, target.PID())
			for i := range 250 {
				s := mustStopFit(t, target.PID(), Options{One: i%2 == 0})
				for range 2 {
					pid, err := s.Call(unix.SYS_GETPID)
					if err != nil || pid != uint64(target.PID()) {
						t.Fatalf("call %d: %d, %v, want %d", i, pid, err, target.PID())
					}
				}
				s.Release()
			}
			checkSum(t, target)
			before.compare(t, lookForLeftovers(t, target.PID()))
		})
	}
}

// TestCallErrors looks at results that are errors, and at ones that are nearly.
func TestCallErrors(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	s := mustStop(t, target.PID(), Options{})
	defer s.Release()
	if _, err := s.Call(unix.SYS_CLOSE, 12345); !errors.Is(err, unix.EBADF) {
		t.Errorf("close: %v", err)
	}
	if _, err := s.Call(unix.SYS_MUNMAP, 1, 1); !errors.Is(err, unix.EINVAL) {
		t.Errorf("munmap: %v", err)
	}
	if _, err := s.Call(100000); !errors.Is(err, unix.ENOSYS) {
		t.Errorf("no such call: %v", err)
	}
	if _, err := s.Call(unix.SYS_GETTID); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestEachThread makes calls in every thread in turn, whatever it is in the middle of.
func TestEachThread(t *testing.T) {
	target := startMixer(t, testtarget.Spec{}, 2)
	before := lookForLeftovers(t, target.PID())
	inUserMode := 0
	for range 20 {
		s := mustStop(t, target.PID(), Options{})
		err := s.Do(func() error {
			for _, th := range s.threads {
				was, mask := th.Regs, uint64(0)
				tid, err := s.call(th, unix.SYS_GETTID)
				if errors.Is(err, ErrBusy) { // its registers need more room than there is
					continue
				}
				if err != nil || tid != uint64(th.TID) {
					return fmt.Errorf("thread %d: %d, %v", th.TID, tid, err)
				}
				if !was.inCall() {
					inUserMode++
				}
				var now Registers
				if err := getRegs(th.TID, &now); err != nil || now != was {
					return fmt.Errorf("thread %d: registers %+v, were %+v (%v)", th.TID, now, was, err)
				}
				if mask, err = getMask(th.TID); err != nil || mask != th.mask {
					return fmt.Errorf("thread %d: mask %#x, was %#x (%v)", th.TID, mask, th.mask, err)
				}
			}
			return nil
		})
		s.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
	checkSum(t, target)
	t.Logf("%d calls in threads that were computing", inUserMode)
	before.compare(t, lookForLeftovers(t, target.PID()))
}

// TestGroupStop calls into a process that was stopped by SIGSTOP, which stays stopped, and stops one by it meanwhile.
func TestGroupStop(t *testing.T) {
	target := startMixer(t, testtarget.Spec{}, 1)
	state := func() byte {
		dir, err := openProc(target.PID())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		return taskState(dir, target.PID())
	}
	signal := func(sig unix.Signal, want bool) {
		t.Helper()
		if sig != 0 {
			if err := unix.Kill(target.PID(), sig); err != nil {
				t.Fatal(err)
			}
		}
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
			if (state() == 'T') == want {
				return
			}
		}
		t.Fatalf("the process is in state %c after %v", state(), sig)
	}
	for i := range 10 {
		signal(unix.SIGSTOP, true)
		s := mustStopFit(t, target.PID(), Options{One: i%2 == 0})
		if _, err := s.Call(unix.SYS_GETPID); err != nil {
			t.Fatal(err)
		}
		s.Release()
		time.Sleep(2 * time.Millisecond)
		signal(0, true)
		signal(unix.SIGCONT, false)
		s = mustStopFit(t, target.PID(), Options{})
		if err := unix.Kill(target.PID(), unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := s.Call(unix.SYS_GETPID); err != nil {
				t.Fatal(err)
			}
		}
		s.Release()
		signal(0, true)
		signal(unix.SIGCONT, false)
	}
	checkSum(t, target)
}

// TestSignals has signals come while calls are made: each arrives once.
func TestSignals(t *testing.T) {
	cmd := helper(t, "signals")
	target := testtarget.StartCmd(t, cmd)
	const rounds = 200
	for i := range rounds {
		s := mustStopFit(t, target.PID(), Options{One: i%3 == 0})
		if err := unix.Kill(target.PID(), unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Call(unix.SYS_GETPID); err != nil {
				t.Fatal(err)
			}
		}
		s.Release()
		// A signal that comes while another is pending is lost by its nature: wait for each.
		if got := target.Command(fmt.Sprintf("await %d", i+1)); got != fmt.Sprintf("got %d", i+1) {
			t.Fatal(got)
		}
	}
}

// TestEnds has a process end in the middle.
func TestEnds(t *testing.T) {
	path := testtarget.Build(t, testtarget.Spec{Program: "tiny"})
	for i := range 30 {
		target := testtarget.Start(t, path)
		s := mustStop(t, target.PID(), Options{One: i%2 == 0})
		if i%3 == 0 {
			if _, err := s.Call(unix.SYS_GETPID); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			time.Sleep(time.Duration(i*17) * time.Microsecond)
			unix.Kill(target.PID(), unix.SIGKILL)
		}()
		var err error
		for begin := time.Now(); err == nil; {
			if time.Since(begin) > time.Minute {
				t.Fatal("a killed process makes calls")
			}
			_, err = s.Call(unix.SYS_GETPID)
		}
		wantError(t, "a call", err, ErrExited)
		_, err = mapProgram(s, Window{Lo: 1 << 20, Hi: 1 << 40}, 4096, 0)
		wantError(t, "mapping", err, ErrExited)
		s.Release()
		target.Kill()
		wantError(t, "writing", s.Write(0x400000, []byte{1}), ErrReleased)
	}
}

// TestExec has another thread replace the program while one is stopped.
func TestExec(t *testing.T) {
	path := testtarget.Build(t, testtarget.Spec{Program: "mill"})
	for range 5 {
		target := testtarget.Start(t, path)
		target.Command("threads 3")
		s := mustStop(t, target.PID(), Options{One: true})
		released := make(chan struct{})
		go func() {
			defer close(released)
			time.Sleep(time.Millisecond)
			s.Release()
		}()
		if got := target.Command("exec"); got != fmt.Sprintf("ready %d", target.PID()) {
			t.Fatal(got)
		}
		<-released
		if _, err := s.Call(unix.SYS_GETPID); !errors.Is(err, ErrReleased) {
			t.Errorf("a call after the release: %v", err)
		}
		target.Stop()
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

// TestChildEnds has a child of this process end while it is traced: whoever started it is told how.
func TestChildEnds(t *testing.T) {
	for i := range 6 {
		cmd := testcmd.Within(t, 0, "cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			child.AwaitEnd(cmd.Process.Pid)
			ended <- cmd.Wait()
		}()
		s := mustStop(t, cmd.Process.Pid, Options{One: i%2 == 0})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for err = nil; err == nil; {
			_, err = s.Call(unix.SYS_GETPID)
		}
		wantError(t, "a call", err, ErrExited)
		s.Release()
		if err := <-ended; err == nil || err.Error() != "signal: killed" {
			t.Errorf("the child ended with %v", err)
		}
	}
}

// TestRun passes on the errors of what it runs, and of the stop.
func TestRun(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	var kept *Stopped
	wrong := errors.New("wrong")
	err := Run(t.Context(), target.PID(), Options{}, func(s *Stopped) error {
		kept = s
		if _, err := s.Call(unix.SYS_GETPID); err != nil {
			return err
		}
		if s.Since().IsZero() || s.Took() <= 0 || len(s.Threads()) == 0 {
			t.Errorf("stopped since %v, in %v, %d threads", s.Since(), s.Took(), len(s.Threads()))
		}
		if s.Stood() != 0 {
			t.Errorf("it stood still for %v before it went on", s.Stood())
		}
		return s.Do(func() error { return wrong })
	})
	if !errors.Is(err, wrong) {
		t.Errorf("error %v", err)
	}
	_, err = kept.Call(unix.SYS_GETPID)
	wantError(t, "a call afterwards", err, ErrReleased)
	if kept.Stood() < kept.Took() {
		t.Errorf("it stood still for %v, %v of them to stop", kept.Stood(), kept.Took())
	}
	err = Run(t.Context(), 1<<30, Options{}, func(*Stopped) error { t.Error("ran without a process"); return nil })
	wantError(t, "no process", err, ErrNoProcess)
	target.Command("num")
}

// TestCallAfterExec stops a process that is within execve: it makes calls as any other.
func TestCallAfterExec(t *testing.T) {
	cmd := testcmd.Within(t, 0, "sh", "-c", "read line; exec sleep 1000")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	s, err := newStopped(cmd.Process.Pid, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for taskState(s.dir, s.pid) != 'S' { // it reads
		time.Sleep(time.Millisecond)
	}
	go onOwnThread(func() {
		defer close(s.ended)
		defer s.letGo()
		s.begin()
		if err = s.seize(t.Context(), s.pid); err != nil {
			return
		}
		in.Write([]byte("\n"))
		for begin := time.Now(); taskState(s.dir, s.pid) != 't'; time.Sleep(time.Millisecond) { // it stops in execve
			if time.Since(begin) > time.Minute {
				err = errors.New("no execve")
				return
			}
		}
		if err = s.interrupt(t.Context(), []int{s.pid}); err != nil {
			return
		}
		var who *Thread
		if who, err = s.caller(); err != nil {
			return
		}
		var pid uint64
		if pid, err = s.call(who, unix.SYS_GETPID); err == nil && pid != uint64(s.pid) {
			err = fmt.Errorf("getpid returns %d", pid)
		}
	})
	<-s.ended
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.pid)); err != nil || filepath.Base(got) != "sleep" {
		t.Errorf("it executes %s (%v)", got, err)
	}
}
