package perf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
)

// A Plain is a sampler that requires no eBPF program: the kernel permits it for processes of the same user. Each thread has a perf
// event on each processor. Its methods are those of Sampler, and are used by one goroutine.
type Plain struct {
	proc     *goproc.Process
	period   time.Duration
	userOnly bool
	gcTimes  uint64       // an address in the process; 0: the phase of the garbage collector is not wanted
	tasks    *os.File     // the directory of the threads in /proc
	readers  []*cpuReader // by processor; nil for those that are offline
	wake     int          // an eventfd
	stopped  atomic.Bool
	rescan   atomic.Bool // records of new threads may be lost
	began    atomic.Int64
	scanned  time.Time

	mu      sync.RWMutex // guards what follows
	threads map[int]*plainThread
	refusal error // the kernel's reason for the first thread that it refused

	queue struct {
		sync.Mutex
		samples []Sample
		bytes   int
		max     int
	}

	lost, unseen, refused atomic.Uint64
	malformed             atomic.Bool
}

// plainThread is a thread that is sampled.
type plainThread struct {
	stat   int           // its file stat in /proc
	events []*plainEvent // by processor
}

// plainEvent is the event of a thread on a processor. Only the reader of this processor uses the fields that change.
type plainEvent struct {
	fd     int
	id     uint64
	begun  bool
	counts uint64 // at the last sample
}

func (e *plainEvent) read() (uint64, error) {
	var b [16]byte // value, ID
	if n, err := unix.Read(e.fd, b[:]); err != nil || n != len(b) {
		return 0, errors.Join(err, errRecord)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// NewPlain returns a sampler for a process that works without eBPF. Samples are available after Start. The error wraps an error
// of package probe if the reason is a missing permission or the kernel, and goproc.ErrExited if the process has exited.
func NewPlain(p *goproc.Process, opt Options) (*Plain, error) {
	if opt.Rate < 1 || opt.Rate > MaxRate {
		return nil, fmt.Errorf("rate %d: must be between 1 and %d", opt.Rate, MaxRate)
	}
	s := &Plain{proc: p, period: time.Second / time.Duration(opt.Rate), threads: map[int]*plainThread{}, wake: -1}
	s.queue.max = opt.BufferBytes
	if opt.GC {
		var err error
		if s.gcTimes, err = p.GCTimesAddr(); err != nil {
			return nil, err
		}
	}
	if err := s.open(opt); err != nil {
		s.Close()
		return nil, fmt.Errorf("process %d: sampling its processor time without eBPF: %w", p.PID(), plainReason(err))
	}
	return s, nil
}

// Period returns the processor time that one sample stands for.
func (s *Plain) Period() time.Duration { return s.period }

// UserOnly reports whether the kernel permits samples in user mode only.
func (s *Plain) UserOnly() bool { return s.userOnly }

func (s *Plain) open(opt Options) error {
	if err := s.probePermission(); err != nil {
		return err
	}
	var err error
	if s.tasks, err = os.Open(fmt.Sprintf("/proc/%d/task", s.proc.PID())); err != nil {
		return err
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	size := maxEventRing
	for size > opt.BufferBytes/cpus && size > minEventRing {
		size /= 2
	}
	for {
		err = s.openReaders(cpus, size)
		if size /= 2; !errors.Is(err, unix.EPERM) || size < minEventRing {
			return err
		}
		s.closeReaders()
	}
}

// openReaders starts the reader of each processor.
func (s *Plain) openReaders(cpus, size int) error {
	s.readers = make([]*cpuReader, cpus)
	for cpu := range cpus {
		threads, err := s.proc.ThreadReader()
		if err != nil {
			return err
		}
		r := &cpuReader{s: s, cpu: cpu, threads: threads, done: make(chan struct{})}
		ready := make(chan error)
		go r.run(size, ready)
		switch err := <-ready; {
		case err == nil:
			s.readers[cpu] = r
		case !errors.Is(err, unix.ENODEV): // in that case it is offline
			return err
		}
	}
	return nil
}

// closeReaders ends the readers, after they have read all samples.
func (s *Plain) closeReaders() {
	for _, r := range s.readers {
		if r != nil {
			r.quit.Store(true)
		}
	}
	if s.wake >= 0 {
		unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
	for i, r := range s.readers {
		if r != nil {
			<-r.done
			r.ring.close()
			s.readers[i] = nil
		}
	}
	if s.wake >= 0 {
		unix.Read(s.wake, make([]byte, 8))
	}
}

// probePermission opens an event, and determines whether the kernel permits samples in kernel mode.
func (s *Plain) probePermission() error {
	for _, s.userOnly = range []bool{false, true} {
		fd, err := s.openEvent(s.proc.PID(), -1, s.period)
		if err == nil {
			return unix.Close(fd)
		}
		if s.userOnly || !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("perf_event_open: %w", err)
		}
	}
	return nil
}

// Permitted returns why perf events of the user's own threads are not permitted, or nil.
func Permitted() error {
	s := &Plain{userOnly: true, period: time.Second}
	fd, err := s.openEvent(0, -1, s.period)
	if err != nil {
		return plainReason(fmt.Errorf("perf_event_open: %w", err))
	}
	return unix.Close(fd)
}

// removeOnExec is a bit of struct perf_event_attr since Linux 5.13.
const removeOnExec = 1 << 36

func (s *Plain) openEvent(tid, cpu int, first time.Duration) (int, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(first), Sample_type: sampleType, Read_format: unix.PERF_FORMAT_ID, Wakeup: 1, Clockid: unix.CLOCK_MONOTONIC,
		Bits:              unix.PerfBitTask | unix.PerfBitUseClockID | removeOnExec,
		Sample_regs_user:  sampledRegsMask,
		Sample_stack_user: uint32(stackBytes),
	}
	if s.userOnly {
		attr.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv
	}
	return unix.PerfEventOpen(&attr, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// Start starts sampling.
func (s *Plain) Start() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	s.began.Store(now.Nano())
	return s.scan(false)
}

// maxScans bounds the reads of the list of threads of a process that starts threads all the time.
const maxScans = 20

// rescanEvery is the time between two reads of the list of threads, in case a record of a new thread is lost.
const rescanEvery = time.Second

// scan samples all threads of the process. New threads are known from records of the threads that started them, as soon as those
// are sampled.
func (s *Plain) scan(late bool) error {
	s.scanned = time.Now()
	again := true
	for range maxScans {
		if !again {
			break
		}
		tids, err := s.list()
		if err != nil {
			return err
		}
		again = false
		for _, tid := range tids {
			again = s.watch(tid, late) || again
		}
	}
	return nil
}

// list returns the IDs of the threads of the process. It opens no file: the events of the threads may use up all that may be open.
func (s *Plain) list() (tids []int, err error) {
	_, err = s.tasks.Seek(0, io.SeekStart)
	var names []string
	if err == nil {
		names, err = s.tasks.Readdirnames(-1)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", s.proc.PID(), goproc.ErrExited)
	}
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, err
}

// watch opens the events of a thread. Late says that the thread may have used processor time since Start. It reports whether the
// thread is new.
func (s *Plain) watch(tid int, late bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.threads[tid] != nil || s.stopped.Load() {
		return false
	}
	dir := fmt.Sprintf("/proc/%d/task/%d/", s.proc.PID(), tid)
	stat, err := unix.Open(dir+"stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	t := &plainThread{stat: stat, events: make([]*plainEvent, len(s.readers))}
	for cpu, r := range s.readers {
		if r == nil || err != nil {
			continue
		}
		t.events[cpu], err = s.newEvent(tid, r)
	}
	if err != nil {
		t.close()
		if !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
			s.refused.Add(1)
			s.refusal = cmp.Or(s.refusal, err)
			s.threads[tid] = &plainThread{stat: -1, events: make([]*plainEvent, len(s.readers))} // no second attempt
		}
		return false
	}
	s.threads[tid] = t
	if !late {
		return true
	}
	if b, err := os.ReadFile(dir + "schedstat"); err == nil {
		first, _, _ := strings.Cut(string(b), " ")
		ran, _ := strconv.ParseUint(first, 10, 64)
		s.unseen.Add(ran)
	}
	return true
}

// newEvent opens the event of a thread on the processor of a reader. Its first sample is due after a quarter to three quarters of the
// period, so that on average a sample stands for a period even if the thread uses many processors for a short time. It would
// have more samples only until the reader sets the period, see due.
func (s *Plain) newEvent(tid int, r *cpuReader) (*plainEvent, error) {
	fd, err := s.openEvent(tid, r.cpu, s.period/4+time.Duration(rand.Int64N(int64(s.period/2))))
	if err != nil {
		return nil, err
	}
	e := &plainEvent{fd: fd}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.ring.fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&e.id))); errno != 0 {
		unix.Close(fd)
		return nil, errno
	}
	return e, nil
}

// unwatch closes the events of a thread that has exited.
func (s *Plain) unwatch(tid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.threads[tid]; t != nil {
		t.close()
		delete(s.threads, tid)
	}
}

func (t *plainThread) close() {
	for i, e := range t.events {
		if e != nil {
			unix.Close(e.fd)
			t.events[i] = nil
		}
	}
	if t.stat >= 0 {
		unix.Close(t.stat)
		t.stat = -1
	}
}

// due reports whether a sample counts. The first of an event is due after a part of the period, the next after a whole period.
func (s *Plain) due(cpu int, raw *rawSample) bool {
	if int64(raw.time) < s.began.Load() {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.threads[raw.tid]
	if t == nil || t.events[cpu] == nil || t.events[cpu].id != raw.event {
		return true
	}
	e := t.events[cpu]
	if e.begun && raw.count-e.counts < uint64(s.period*9/10) {
		return false
	}
	if !e.begun {
		e.begun = true
		period := uint64(s.period)
		unix.Syscall(unix.SYS_IOCTL, uintptr(e.fd), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&period)))
	}
	e.counts = raw.count
	return true
}

// enqueue adds a sample to those that are to be drained.
func (s *Plain) enqueue(sample *Sample) {
	q := &s.queue
	q.Lock()
	defer q.Unlock()
	size := int(unsafe.Sizeof(*sample)) + len(sample.Stack.Data) + len(sample.Goroutine.Data)
	if q.bytes+size > q.max {
		s.lost.Add(1)
		return
	}
	q.bytes += size
	q.samples = append(q.samples, *sample)
}

// Drain calls f with each available sample. The samples of a process that has exited are still available.
func (s *Plain) Drain(f func(*Sample)) error {
	if s.stopped.Load() {
		s.closeReaders() // they read what is left
	}
	if s.malformed.Load() {
		return errRecord
	}
	if (s.rescan.Swap(false) || time.Since(s.scanned) > rescanEvery) && !s.stopped.Load() {
		if err := s.scan(true); err != nil && !errors.Is(err, goproc.ErrExited) {
			return err
		}
	}
	q := &s.queue
	q.Lock()
	samples := q.samples
	q.samples, q.bytes = nil, 0
	q.Unlock()
	for i := range samples {
		f(&samples[i])
	}
	return nil
}

// Stop stops sampling. The readers end later, as they may have to wait for a processor. Samples can be drained afterwards.
func (s *Plain) Stop() error {
	if s.stopped.Swap(true) {
		return nil
	}
	s.mu.Lock()
	for _, t := range s.threads {
		for _, e := range t.events {
			if e != nil {
				unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_DISABLE, 0)
			}
		}
	}
	s.mu.Unlock()
	return nil
}

// Lost returns the number of samples that were lost because a buffer was full.
func (s *Plain) Lost() (uint64, error) { return s.lost.Load(), nil }

// Unsampled returns what was not sampled: the processor time of threads before they were known, and the number of threads for which
// the kernel refused events, with its reason for the first of them.
func (s *Plain) Unsampled() (unseen time.Duration, refused uint64, refusal error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return time.Duration(s.unseen.Load()), s.refused.Load(), s.refusal
}

// Close removes the events.
func (s *Plain) Close() error {
	err := s.Stop()
	s.closeReaders()
	for tid, t := range s.threads {
		t.close()
		delete(s.threads, tid)
	}
	if s.wake >= 0 {
		unix.Close(s.wake)
		s.wake = -1
	}
	s.tasks.Close() // which does nothing if it is nil
	return err
}

// plainReason adds the reason of a failure to an error.
func plainReason(err error) error {
	refused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
	if !refused {
		return reason(err)
	}
	setting := "perf_event_mlock_kb"
	if strings.HasPrefix(err.Error(), "perf_event_open") {
		setting = "perf_event_paranoid"
	}
	return fmt.Errorf("%w: %w (kernel.%s is %s)", probe.ErrPermission, err, setting, kernelSetting(setting))
}

// kernelSetting returns the value of a setting of the kernel.
func kernelSetting(name string) string {
	b, err := os.ReadFile("/proc/sys/kernel/" + name)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}
