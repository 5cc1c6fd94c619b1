// Package inject runs a program and calls a function at each of its system calls. Tests use it to kill the program, or
// the process that it operates on, at every one of them.
//
// The central function is [Run]. It traces all threads of the program with ptrace. The program itself can be a tracer
// of other processes.
package inject

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call of the program, before it is made or after it.
type Call struct {
	PID, TID int
	Nr       uint64
	Args     [6]uint64
	After    bool
	Result   int64 // after it
}

// Run starts a command and calls at before and after each of its system calls, until the command has ended, and returns how
// it did. Nothing else may wait for the command. The program is killed when at returns false, at that point: a call that it
// is about to make is not made.
func Run(cmd *exec.Cmd, at func(Call) bool) (unix.WaitStatus, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	var status unix.WaitStatus
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // which traces; it ends with the goroutine, and the program with it
		done <- run(cmd, at, &status)
	}()
	err := <-done
	_ = cmd.Wait() // it has been waited for; this ends what the command itself needs
	return status, err
}

const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL

func run(cmd *exec.Cmd, at func(Call) bool, status *unix.WaitStatus) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	if _, err := wait(pid, status); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		return fmt.Errorf("tracing %s: %w", cmd.Path, err)
	}
	calls := map[int]*Call{}
	tid := pid
	for signal := 0; ; signal = 0 {
		if callStop(*status) {
			goOn, err := visit(calls, pid, tid, at)
			if err != nil {
				return err
			}
			if !goOn {
				return kill(pid, status)
			}
		} else if status.StopSignal() != unix.SIGTRAP && status.StopSignal() != unix.SIGSTOP {
			signal = int(status.StopSignal())
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("resuming thread %d: %w", tid, err)
		}
		for {
			var err error
			if tid, err = wait(-1, status); err != nil {
				return err
			}
			if status.Stopped() {
				break
			}
			if tid == pid {
				return nil
			}
		}
	}
}

// kill ends the program and waits until it has ended.
func kill(pid int, status *unix.WaitStatus) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	for {
		tid, err := wait(-1, status)
		if err != nil || tid == pid && !status.Stopped() {
			return err
		}
	}
}

func callStop(status unix.WaitStatus) bool { return status.StopSignal() == unix.SIGTRAP|0x80 }

// wait waits for a thread that this one traces.
func wait(tid int, status *unix.WaitStatus) (int, error) {
	const ofThisThread = 0x20000000 // __WNOTHREAD of include/uapi/linux/wait.h
	for {
		got, err := unix.Wait4(tid, status, unix.WALL|ofThisThread, nil)
		if !errors.Is(err, unix.EINTR) {
			return got, err
		}
	}
}

// visit calls at for a thread that has stopped at a system call.
func visit(calls map[int]*Call, pid, tid int, at func(Call) bool) (bool, error) {
	const (
		getInfo     = 0x420e // PTRACE_GET_SYSCALL_INFO
		entry, exit = 1, 2   // of struct ptrace_syscall_info
		callAt      = 24
	)
	var info [88]byte
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, getInfo, uintptr(tid), uintptr(len(info)), uintptr(unsafe.Pointer(&info[0])), 0, 0); errno != 0 {
		if errno == unix.ESRCH {
			return true, nil
		}
		return false, fmt.Errorf("system call of thread %d: %w", tid, errno)
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(info[at:]) }
	switch info[0] {
	case entry:
		c := &Call{PID: pid, TID: tid, Nr: word(callAt)}
		for i := range c.Args {
			c.Args[i] = word(callAt + 8 + 8*i)
		}
		calls[tid] = c
		return at(*c), nil
	case exit:
		c := calls[tid]
		if c == nil { // the call by which the thread was made
			return true, nil
		}
		c.After, c.Result = true, int64(word(callAt))
		return at(*c), nil
	}
	return true, nil
}
