package testcmd

import (
	"os/exec"
	"runtime"
	"syscall"
)

// StartTied starts a command to which the kernel sends a signal when this process ends, however it ends. wait waits for the command, such as
// by cmd.Wait. ended is closed when it has returned.
//
// The kernel sends the signal when the thread ends that has started the command (prctl(2), PR_SET_PDEATHSIG), which can be long before the
// process does. So StartTied keeps a thread until the command has ended.
func StartTied(cmd *exec.Cmd, signal syscall.Signal, wait func()) (ended <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = signal
	started, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			wait()
		}
	}()
	return done, <-started
}
