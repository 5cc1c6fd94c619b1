package goproc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// tracee is a process whose threads are stopped by ptrace. The kernel lets them go on when the thread that stopped them
// ends, so a Loupe that dies leaves nothing stopped.
type tracee struct {
	pid     int
	stopped map[int]stoppedThread
	seized  map[int]bool
	resume  chan struct{} // closed to let the threads go on
	resumed chan struct{} // closed when they do
}

// stoppedThread is one stopped thread.
type stoppedThread struct {
	regs   registers
	signal unix.Signal // was about to be delivered; it is delivered when the thread goes on
}

const (
	stopTimeout  = 2 * time.Second // for one thread to stop; one in uninterruptible sleep never does
	stopInterval = 20 * time.Microsecond
	stopPasses   = 20 // over the list of threads, until no new ones appear
)

// seize stops all threads of a process. The caller must call release.
func seize(ctx context.Context, pid int) (*tracee, error) {
	t := &tracee{
		pid: pid, stopped: map[int]stoppedThread{}, seized: map[int]bool{},
		resume: make(chan struct{}), resumed: make(chan struct{}),
	}
	started := make(chan error)
	go onOwnThread(func() {
		defer close(t.resumed)
		started <- t.stopAll(ctx)
		<-t.resume
		t.detachAll()
	})
	if err := <-started; err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

// onOwnThread runs f on a thread that ends with it, and with it all that the thread may still trace: ptrace ties a tracee
// to one thread. The main thread of a Go program never ends, so it does not do.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // without unlocking: the runtime ends the thread
	}
	done := make(chan struct{})
	go func() { // on another thread, since this one is taken
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// release lets the process go on.
func (t *tracee) release() {
	close(t.resume)
	<-t.resumed
}

// registers returns where each thread has stopped.
func (t *tracee) registers() map[int]registers {
	regs := make(map[int]registers, len(t.stopped))
	for tid, s := range t.stopped {
		regs[tid] = s.regs
	}
	return regs
}

// stopAll stops the threads, those too that are started meanwhile.
func (t *tracee) stopAll(ctx context.Context) error {
	dir, err := openProc(t.pid)
	if err != nil {
		return err
	}
	defer dir.close()
	for range stopPasses {
		tids, err := dir.threads()
		if err != nil {
			return err
		}
		fresh, err := t.seizeNew(dir, tids)
		if err != nil {
			return err
		}
		if len(fresh) == 0 {
			return nil
		}
		for _, tid := range fresh {
			if err := t.await(ctx, tid); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("process %d: it starts threads faster than they can be stopped", t.pid)
}

// seizeNew asks the threads that are not seized yet to stop, and returns them.
func (t *tracee) seizeNew(dir *procDir, tids map[int]int) ([]int, error) {
	var fresh []int
	for _, tid := range tids {
		if t.seized[tid] {
			continue
		}
		err := unix.PtraceSeize(tid)
		switch {
		case errors.Is(err, unix.ESRCH):
			continue // the thread has ended
		case errors.Is(err, unix.EPERM) && dir.statusField("TracerPid") != "0":
			return nil, fmt.Errorf("process %d: %w: process %s traces it already", t.pid, ErrPermission, dir.statusField("TracerPid"))
		case err != nil:
			return nil, fmt.Errorf("process %d: stopping it: %w", t.pid, errors.Join(ErrPermission, err))
		}
		t.seized[tid] = true
		fresh = append(fresh, tid)
	}
	for _, tid := range fresh {
		if err := unix.PtraceInterrupt(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, fmt.Errorf("process %d: stopping thread %d: %w", t.pid, tid, err)
		}
	}
	return fresh, nil
}

// await waits until a thread has stopped or ended, and notes its registers.
func (t *tracee) await(ctx context.Context, tid int) error {
	deadline := time.Now().Add(stopTimeout)
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(tid, &status, unix.WNOHANG|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD), got == tid && (status.Exited() || status.Signaled()):
			return nil
		case err != nil:
			return fmt.Errorf("process %d: waiting for thread %d: %w", t.pid, tid, err)
		case got == tid && status.Stopped():
			return t.note(tid, status)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d: thread %d does not stop (uninterruptible sleep)", t.pid, tid)
		}
		time.Sleep(stopInterval)
	}
}

// note keeps a stopped thread's registers, and the signal that it stopped for.
func (t *tracee) note(tid int, status unix.WaitStatus) error {
	s := stoppedThread{}
	if status.TrapCause() != unix.PTRACE_EVENT_STOP && status>>16 == 0 {
		s.signal = status.StopSignal()
	}
	regs, err := threadRegs(tid)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: registers of thread %d: %w", t.pid, tid, err)
	}
	s.regs = regs
	t.stopped[tid] = s
	return nil
}

// detachAll lets every thread go on and delivers the signals that were held up.
func (t *tracee) detachAll() {
	for tid := range t.seized {
		signal := t.stopped[tid].signal
		// A thread that cannot be detached has ended, or is let go when this thread ends.
		_, _, _ = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(signal), 0, 0)
	}
}
