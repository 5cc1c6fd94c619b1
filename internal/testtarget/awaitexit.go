package testtarget

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitExit returns when a process has ended. Unlike wait(2) it does not see
// the stops of a process that is being traced: a tracer and os/exec in one
// process would take each other's news.
func awaitExit(pid int) {
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
