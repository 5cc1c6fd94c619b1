package perf

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// events are perf events with the clock of each processor. An event for each thread would be exact by itself, but the kernel
// stops and starts its timer whenever it schedules the thread. This slows down programs that switch threads frequently, and
// about 10 % of their samples were then in the switches.
type events struct {
	prog int // file descriptor of the eBPF program
	tick uint64
	fds  []int
}

// open opens and enables an event for each processor that is online.
func (e *events) open(cpus int) error {
	for cpu := range cpus {
		fd, err := e.openCPU(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // it is offline
		}
		if err != nil {
			return err
		}
		e.fds = append(e.fds, fd)
	}
	return nil
}

func (e *events) openCPU(cpu int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: e.tick, Bits: unix.PerfBitDisabled | unix.PerfBitExcludeIdle,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("perf_event_open for processor %d: %w", cpu, err)
	}
	for _, step := range []struct {
		request uint
		value   int
	}{{unix.PERF_EVENT_IOC_SET_BPF, e.prog}, {unix.PERF_EVENT_IOC_ENABLE, 0}} {
		if err := unix.IoctlSetInt(fd, step.request, step.value); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("enabling the perf event of processor %d: %w", cpu, err)
		}
	}
	return fd, nil
}

// close closes all events.
func (e *events) close() error {
	var errs []error
	for _, fd := range e.fds {
		errs = append(errs, unix.Close(fd))
	}
	e.fds = nil
	return errors.Join(errs...)
}
