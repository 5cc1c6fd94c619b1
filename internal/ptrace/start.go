package ptrace

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// StartStopped starts a command and stops it before its first instruction. It uses ptrace, then detaches and leaves the
// process stopped by SIGSTOP, so that other tracers can attach. SIGCONT resumes it. If StartStopped fails, the process
// has been killed or was never started.
func StartStopped(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel ties the tracee to this thread
		defer runtime.UnlockOSThread()
		started <- startStopped(cmd)
	}()
	return <-started
}

func startStopped(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	err := retry(func() error {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		return err
	})
	if err == nil && !status.Stopped() {
		err = fmt.Errorf("status %#x", uint32(status))
	}
	if err == nil {
		err = request(unix.PTRACE_DETACH, pid, 0, uintptr(unix.SIGSTOP))
	}
	if err == nil {
		return nil
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	return fmt.Errorf("%s did not stop at its start: %w", cmd.Path, err)
}
