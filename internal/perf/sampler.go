package perf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/ring"
)

// MaxRate is the maximum number of samples per second of processor time.
const MaxRate = 999

// Options configures New.
type Options struct {
	Rate        int  // samples per second of processor time of each thread, at most MaxRate
	BufferBytes int  // size of the buffer for samples, a power of two
	GC          bool // add the phase of the garbage collector to each sample
}

// A Sampler samples the processor time of the threads of one process. It is used by one goroutine.
type Sampler struct {
	proc   *goproc.Process
	every  uint32
	tick   time.Duration
	coll   *ebpf.Collection
	ring   *ring.Ring
	events events
}

// minTickRate is the number of ticks per second at low rates of samples. A sample is due at the first tick at which the thread
// has used the processor for a period, so ticks are more frequent than samples.
const minTickRate = 400

// New returns a sampler for a process. Nothing is sampled before Start. The error wraps an error of package probe if the reason
// is a missing permission or the kernel, and goproc.ErrExited if the process has exited.
func New(p *goproc.Process, opt Options) (*Sampler, error) {
	if opt.Rate < 1 || opt.Rate > MaxRate {
		return nil, fmt.Errorf("rate %d: must be between 1 and %d", opt.Rate, MaxRate)
	}
	s := newSampler(p, opt.Rate)
	if err := s.open(opt); err != nil {
		s.Close()
		return nil, fmt.Errorf("process %d: sampling its processor time: %w", p.PID(), reason(err))
	}
	return s, nil
}

// newSampler returns a sampler that is not open.
func newSampler(p *goproc.Process, rate int) *Sampler {
	every := max(1, minTickRate/rate)
	return &Sampler{proc: p, every: uint32(every), tick: time.Second / time.Duration(rate*every)}
}

// Period returns the processor time that one sample stands for.
func (s *Sampler) Period() time.Duration { return s.tick * time.Duration(s.every) }

func (s *Sampler) open(opt Options) error {
	if err := probe.CheckBPF(); err != nil {
		return err
	}
	rlimit.RemoveMemlock() // only kernels before 5.11 require it; if it fails there, loading reports the reason
	spec, err := loadSampler()
	if err != nil {
		return err
	}
	config, err := s.config()
	if err != nil {
		return err
	}
	if opt.GC {
		if config.GcTimes, err = s.proc.GCTimesAddr(); err != nil {
			return err
		}
	}
	if err := spec.Variables["config"].Set(config); err != nil {
		return err
	}
	spec.Maps["samples"].MaxEntries = uint32(opt.BufferBytes)
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	spec.Maps["scratches"].MaxEntries = uint32(cpus)
	if s.coll, err = ebpf.NewCollection(spec); err != nil {
		return err
	}
	if s.ring, err = ring.New(s.coll.Maps["samples"]); err != nil {
		return err
	}
	s.events = events{prog: s.coll.Programs["sample"].FD(), tick: uint64(s.tick)}
	return s.events.open(cpus)
}

// config returns the settings of the eBPF program.
func (s *Sampler) config() (*samplerLoupeSampleConfig, error) {
	ids, err := probe.IDsOf(s.proc.PID())
	if err != nil {
		return nil, err
	}
	c := &samplerLoupeSampleConfig{Tgid: ids.PID, NsDev: ids.Dev, NsIno: ids.Ino, Every: s.every, Tick: uint64(s.tick)}
	if off, ok := s.proc.Binary().TLSOffset(); ok {
		c.HasTls, c.G_tls = 1, off
	}
	l := s.proc.Layout()
	for path, to := range map[string]*uint32{
		"runtime.g.stack.lo": &c.G_stack, "runtime.g.m": &c.G_m, "runtime.g.goid": &c.G_goid, "runtime.g.startpc": &c.G_startpc,
		"runtime.g.sched.pc": &c.G_schedPc, "runtime.g.sched.sp": &c.G_schedSp, "runtime.g.syscallpc": &c.G_syscallpc, "runtime.g.syscallsp": &c.G_syscallsp,
		"runtime.m.g0": &c.M_g0, "runtime.m.gsignal": &c.M_gsignal, "runtime.m.curg": &c.M_curg,
	} {
		off, err := l.Offset(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", goproc.ErrLayout, err)
		}
		*to = uint32(off)
	}
	for path, to := range map[string]*uint32{ // which a release may lack
		"runtime.g.sched.lr": &c.G_schedLr, "runtime.g.labels": &c.G_labels, "runtime.m.vdsoPC": &c.M_vdsoPc, "runtime.m.vdsoSP": &c.M_vdsoSp,
		"runtime.m.ncgo": &c.M_ncgo, "runtime.m.preemptoff.len": &c.M_preemptoffLen,
	} {
		*to = uint32(samplerLoupeSampleLimitLOUPE_NO_FIELD)
		if f, ok := l.Field(path); ok {
			*to = f.Offset
		}
	}
	return c, nil
}

// Start starts sampling.
func (s *Sampler) Start() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	return s.coll.Variables["control"].Set(&samplerLoupeControl{Enabled: uint64(now.Nano())})
}

// Stop stops sampling. Samples can be drained afterwards.
func (s *Sampler) Stop() error { return s.events.close() }

// Drain calls f with each available sample. The sample, with the copies of stacks that it contains, is valid only during the
// call.
func (s *Sampler) Drain(f func(*Sample)) error {
	var sample Sample
	var err error
	s.ring.Drain(func(raw []byte) bool {
		if err = sample.decode(raw); err != nil {
			return false
		}
		f(&sample)
		return true
	})
	return err
}

// Lost returns the number of periods for which samples were lost because the buffer was full.
func (s *Sampler) Lost() (uint64, error) {
	var c samplerLoupeControl
	if err := s.coll.Variables["control"].Get(&c); err != nil {
		return 0, fmt.Errorf("reading the counters: %w", err)
	}
	return c.Lost, nil
}

// Close removes the events and the program.
func (s *Sampler) Close() error {
	errs := []error{s.events.close()}
	if s.ring != nil {
		errs = append(errs, s.ring.Close())
		s.ring = nil
	}
	if s.coll != nil {
		s.coll.Close()
		s.coll = nil
	}
	return errors.Join(errs...)
}

// oneLine is an error whose message is one line. The verifier's messages have many.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }

// reason adds the reason of a failure to an error.
func reason(err error) error {
	switch {
	case errors.Is(err, probe.ErrPermission), errors.Is(err, goproc.ErrLayout):
		return err
	case errors.Is(err, unix.ESRCH), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", goproc.ErrExited, oneLine{err})
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", probe.ErrPermission, oneLine{err})
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: requires Linux 5.15 or later: %w", probe.ErrUnsupported, oneLine{err})
	}
	return oneLine{err}
}
