// Package child waits for the end of a program that this process has started, even if this process traces the program.
//
// If a parent traces its child, the kernel reports the stops of the child to any thread that calls wait(2). os/exec would
// mistake such a stop for the end of the child, and the tracer would miss it. A pidfd becomes readable only at the end.
package child

import (
	"errors"

	"golang.org/x/sys/unix"
)

// AwaitEnd returns when the process has ended, at once when there is none; it is not reaped. Where the kernel has no
// pidfds (before Linux 5.3) it returns at once too: the wait(2) that follows then sees the stops.
func AwaitEnd(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
