package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the resource usage of a process at one moment, as accounted by the kernel, and the state of its Ps, as
// recorded by its runtime.
type Usage struct {
	CPU     time.Duration // processor time of all threads, including those that have ended: utime + stime
	RSS     int64         // resident memory in bytes
	Threads []ThreadUsage // the live threads, in no particular order

	Procs   int   // GOMAXPROCS; 0 if it could not be read
	Running []OnP // goroutines that have a P and are not in a system call; nil if that could not be read
	Err     error // the reason why a part could not be read
}

// ThreadUsage is the kernel's accounting of one thread.
type ThreadUsage struct {
	ID    int           // the ID in the PID namespace of this process
	Inner int           // the ID in the PID namespace of the process, which its runtime uses
	CPU   time.Duration // time that it has run on a processor
	Wait  time.Duration // time that it was ready to run and waited in the kernel's run queue
}

// OnP is a goroutine that has a P.
type OnP struct {
	G uint64
	P int32
}

// Usage returns the resource usage of the process, which is not stopped. Threads and Ps are read one after the other,
// within microseconds.
func (p *Process) Usage() (Usage, error) {
	var u Usage
	u.Procs, u.Running, u.Err = p.onProcs()
	err := u.account(p.dir)
	return u, err
}

// KernelUsage returns what the kernel accounts to a process: Usage without Procs and Running. It requires no permission.
func KernelUsage(pid int) (Usage, error) {
	var u Usage
	dir, err := openProc(pid)
	if err != nil {
		return u, err
	}
	defer dir.close()
	err = u.account(dir)
	return u, err
}

// Exists reports whether a process exists and has not ended. A process that its parent has not awaited yet has ended.
func Exists(pid int) bool {
	dir, err := openProc(pid)
	if err != nil {
		return false
	}
	defer dir.close()
	stat, err := dir.stat()
	return err == nil && !stat.ended()
}

// account adds what the kernel accounts to the process.
func (u *Usage) account(dir *procDir) error {
	tids, err := dir.threads()
	if err != nil {
		return err
	}
	for inner, tid := range tids {
		t := ThreadUsage{ID: tid, Inner: inner}
		if t.CPU, t.Wait, err = dir.schedstat(tid); err == nil {
			u.Threads = append(u.Threads, t)
		} else if !errors.Is(err, ErrNoProcess) { // it has ended
			u.Err = errors.Join(u.Err, err)
		}
	}
	if u.RSS, err = dir.residentBytes(); err != nil {
		return err
	}
	u.CPU, err = processTime(dir.pid)
	return err
}

// The clocks of the processor time of a process, in include/linux/posix-timers_types.h.
const (
	clockBoth  = 0 // CPUCLOCK_PROF: in user mode and in the kernel, by samples
	clockUser  = 1 // CPUCLOCK_VIRT: in user mode, by samples
	clockSched = 2 // CPUCLOCK_SCHED: of the scheduler, exact
)

// processTime returns the processor time of a process, by its clock (see clock_getcpuclockid(3)).
func processTime(pid int) (time.Duration, error) { return processClock(pid, clockSched) }

func processClock(pid int, clock int32) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3)|clock, &ts); err != nil {
		return 0, fmt.Errorf("process %d: processor time: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// ProcessorTime returns the processor time of the process so far, in user mode and in the kernel. The sum is exact. The kernel divides it by
// samples, as it does for utime and stime in proc_pid_stat(5).
func (p *Process) ProcessorTime() (user, system time.Duration, err error) {
	total, err := processTime(p.pid)
	if err != nil {
		return 0, 0, p.UnlessReplaced(fmt.Errorf("%w: %w", ErrExited, err))
	}
	inUser, errUser := processClock(p.pid, clockUser)
	both, errBoth := processClock(p.pid, clockBoth)
	if err := errors.Join(errUser, errBoth); err != nil {
		return 0, 0, err
	}
	if both == 0 {
		return total, 0, nil
	}
	user = time.Duration(float64(total) * min(1, float64(inUser)/float64(both)))
	return user, total - user, nil
}

// schedstat returns how long a thread ran, and how long it waited in the run queue (Documentation/scheduler/sched-stats.rst).
func (d *procDir) schedstat(tid int) (ran, waited time.Duration, err error) {
	b, err := d.read(fmt.Sprintf("task/%d/schedstat", tid))
	if err != nil {
		return 0, 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, 0, fmt.Errorf("malformed schedstat line %q", b)
	}
	r, errRan := strconv.ParseInt(f[0], 10, 64)
	w, errWaited := strconv.ParseInt(f[1], 10, 64)
	return time.Duration(r), time.Duration(w), errors.Join(errRan, errWaited)
}

// residentBytes returns the size of the resident memory.
func (d *procDir) residentBytes() (int64, error) {
	b, err := d.read("statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, fmt.Errorf("malformed statm line %q", b)
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// maxGOMAXPROCS is the largest plausible value. The runtime has no limit.
const maxGOMAXPROCS = 1 << 16

// onProcs returns the number of Ps and the goroutines that run on them (P, its M, the M's goroutine).
func (p *Process) onProcs() (procs int, running []OnP, err error) {
	if p.rt.procM == none {
		return 0, nil, fmt.Errorf("process %d: %w: the field runtime.p.m is unknown", p.pid, ErrLayout)
	}
	ps, err := p.procAddrs()
	if err != nil {
		return 0, nil, err
	}
	n := len(ps)
	running = []OnP{}
	ms, err := p.words(ps, p.rt.procM)
	if err != nil {
		return n, nil, err
	}
	gs, err := p.words(ms, p.rt.m.curg)
	if err != nil {
		return n, nil, err
	}
	decoded, err := p.readGs(gs)
	if err != nil {
		return n, nil, err
	}
	for id, g := range decoded {
		if g.goid != 0 && (g.status == p.rt.status.running || g.status == p.rt.status.copystack) {
			running = append(running, OnP{g.goid, int32(id)})
		}
	}
	return n, running, nil
}

// words reads the word at an offset from each address. It is 0 for addresses that cannot be read.
func (p *Process) words(addrs []uint64, offset int) ([]uint64, error) {
	b := make([]byte, 8*len(addrs))
	spans := make([]span, len(addrs))
	for i, addr := range addrs {
		spans[i] = span{addr: addr + uint64(offset), buf: b[8*i : 8*i+8]}
	}
	if err := p.mem.readSpans(spans); err != nil {
		return nil, err
	}
	for i := range spans {
		if !spans[i].ok || addrs[i] == 0 {
			clear(spans[i].buf)
		}
	}
	return words(b), nil
}

// words returns the words in b.
func words(b []byte) []uint64 {
	list := make([]uint64, len(b)/8)
	for i := range list {
		list[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return list
}
