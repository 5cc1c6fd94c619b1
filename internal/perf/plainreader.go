package perf

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
)

// cpuReader reads the samples of one processor on this processor. As long as it runs, the thread of which the sample is does not
// run, unless the kernel moves it to another processor. So the memory of the thread can be read as it was at the sample.
type cpuReader struct {
	s       *Plain
	cpu     int
	ring    *eventRing
	threads *goproc.ThreadReader
	quit    atomic.Bool
	pinned  bool
	done    chan struct{}
}

// maxRan is the processor time that the kernel may account to a thread between a sample and the end of the read of its memory.
// The kernel uses this time itself: it copies the stack, and changes to the reader. If the thread returns to user mode,
// it usually runs until the next tick of the kernel, 1 to 10 ms.
const maxRan = 100 * time.Microsecond

// run reads samples until the sampler stops. It reports on ready whether it can.
func (r *cpuReader) run(size int, ready chan<- error) {
	defer close(r.done)
	runtime.LockOSThread() // not unlocked: the thread ends with its settings
	var own unix.CPUSet
	own.Set(r.cpu)
	r.pinned = unix.SchedSetaffinity(0, &own) == nil
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL { // since Linux 6.12 a short slice lets a thread run at once
		attr.Runtime = uint64(maxRan)
		unix.SchedSetAttr(0, attr, 0)
	}
	var err error
	if r.ring, err = newEventRing(r.cpu, size); err != nil {
		ready <- err
		return
	}
	ready <- nil
	wait := []unix.PollFd{{Fd: int32(r.ring.fd), Events: unix.POLLIN}, {Fd: int32(r.s.wake), Events: unix.POLLIN}}
	for !r.s.stopped.Load() && !r.quit.Load() {
		unix.Poll(wait, -1)
		r.ring.drain(r.record)
	}
	r.ring.drain(r.record)
}

func (r *cpuReader) record(kind uint32, misc uint16, body []byte) {
	switch kind {
	case unix.PERF_RECORD_SAMPLE:
		raw, ok := decodePlain(body)
		if !ok {
			r.s.malformed.Store(true)
			return
		}
		r.sample(&raw, misc)
	case unix.PERF_RECORD_LOST: // ID, number
		if len(body) >= 16 {
			r.s.lost.Add(binary.LittleEndian.Uint64(body[8:]))
		}
		r.s.rescan.Store(true)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT: // PID, parent's PID, TID, parent's TID
		if len(body) < 16 || int(binary.LittleEndian.Uint32(body)) != r.s.proc.PID() {
			return
		}
		if tid := int(binary.LittleEndian.Uint32(body[8:])); kind == unix.PERF_RECORD_FORK {
			r.s.watch(tid, true)
		} else {
			r.s.unwatch(tid)
		}
	}
}

// sample completes a sample and queues it.
func (r *cpuReader) sample(raw *rawSample, misc uint16) {
	sample := Sample{Time: raw.time, TID: uint32(raw.tid), InKernel: misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_KERNEL,
		Weight: 1, Program: 1, ThreadState: raw.state}
	if !r.s.due(r.cpu, raw) {
		return
	}
	complete := raw.state.PC != 0 && r.threads.Read(raw.tid, &sample.ThreadState)
	if complete && r.s.gcTimes != 0 {
		if times, err := r.s.proc.ReadGCTimes(r.s.gcTimes); err == nil { // else the process has exited
			sample.GC = times.Phase()
		}
	}
	if !complete || !r.froze(raw) {
		sample.ThreadState = raw.state
		sample.M, sample.GC, sample.Late = goproc.UnknownM, "", true
	}
	if in := sample.SP - sample.StackLo; in < sample.StackHi-sample.StackLo {
		data := &sample.Stack.Data
		*data = (*data)[:min(uint64(len(*data)), sample.StackHi-sample.SP)]
	}
	sample.Stack.Data = bytes.Clone(sample.Stack.Data)
	sample.Goroutine.Data = bytes.Clone(sample.Goroutine.Data)
	r.s.enqueue(&sample)
}

// froze reports whether the thread has not run in user mode since the sample.
func (r *cpuReader) froze(raw *rawSample) bool {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); !r.pinned || errno != 0 || int(cpu) != r.cpu {
		return false
	}
	r.s.mu.RLock()
	defer r.s.mu.RUnlock()
	t := r.s.threads[raw.tid]
	if t == nil {
		return false
	}
	e := t.events[r.cpu]
	if e == nil || e.id != raw.event {
		return false
	}
	last, ok := lastProcessor(t.stat)
	now, err := e.read()
	return ok && err == nil && last == r.cpu && now-raw.count < uint64(maxRan)
}

// lastProcessor returns the processor on which a thread ran last, from its file stat in /proc.
func lastProcessor(fd int) (int, bool) {
	var buf [1024]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return 0, false
	}
	const field = 36 // behind the name, see proc(5)
	f := bytes.Fields(buf[bytes.LastIndexByte(buf[:n], ')')+1 : n])
	if len(f) <= field {
		return 0, false
	}
	cpu, err := strconv.Atoi(string(f[field]))
	return cpu, err == nil
}
