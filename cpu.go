package loupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"syscall"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/filelimit"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/perf"
)

// Defaults and limits of CPUOptions.
const (
	DefaultCPURate = 99           // samples per second of processor time
	MaxCPURate     = perf.MaxRate // the maximum value of CPUOptions.Rate
)

// CPUOptions configures [Process.CPUProfile]. The zero value is usable.
type CPUOptions struct {
	// Duration is how long the process is sampled. Zero means until the context is done or the process ends.
	Duration time.Duration

	// Rate is the number of samples per second of processor time, at most MaxCPURate. Zero means DefaultCPURate.
	Rate int

	// Goroutines adds to each sample the label "goroutine" with the ID of the goroutine, and the label "start" with the
	// function that it was started with.
	Goroutines bool

	// GC adds the label "gc" to the samples that were taken during a garbage collection, with its phase: "sweep termination",
	// "mark" or "mark termination".
	GC bool

	// NoEBPF samples without an eBPF program even if one is permitted.
	NoEBPF bool

	// BufferBytes is the size of the buffer between the target and this process, rounded up to a power of two. Zero
	// means DefaultBufferBytes. Samples that do not fit are lost and counted.
	BufferBytes int
}

// A CPUProfile is a profile of the processor time of a process, in user mode and in the kernel. Its comments report what it
// does not contain.
type CPUProfile struct {
	*profile.Profile

	CPU     time.Duration // processor time of the process during the profile, as accounted by the kernel
	Samples uint64        // in the profile, each standing for Period nanoseconds of processor time
	Lost    uint64        // samples that did not fit into the buffer
	Unknown uint64        // samples whose callers are unknown
	Cut     uint64        // samples whose stacks were truncated: they are longer than the part that was copied
	Labels  uint64        // samples whose goroutine changed its labels or ended before they were read
	Kernel  uint64        // samples of threads that were in the kernel
	Late    uint64        // samples whose thread had run before its goroutine was read; see NoEBPF

	// NoEBPF says that the samples were taken without an eBPF program, and why: it was not permitted, or disabled. It is empty
	// otherwise. UserOnly says that the kernel permitted samples in user mode only. Unseen is the processor time of new threads
	// before they were sampled, and Refused the number of threads that could not be sampled, for example because of the limit of
	// open files; Refusal is the reason for the first of them. These apply only without eBPF.
	NoEBPF   string
	UserOnly bool
	Unseen   time.Duration
	Refused  uint64
	Refusal  error

	// Ended is the reason why the profile ended before the context was done, or nil: ErrExited if the process has exited,
	// ErrExec if it has executed another program.
	Ended error

	unsure time.Duration // the sum of what CPU may be too much or too little by, because of when it was read
}

// Sampled returns the share of the process's processor time that the samples stand for. It is 1, except for parts of a period,
// for samples that were lost, and for threads that had no sample.
func (c *CPUProfile) Sampled() float64 {
	if c.CPU <= 0 {
		return 1
	}
	return float64(c.Samples) * float64(c.Period) / float64(c.CPU)
}

// drainEvery is the time between two reads of the samples. Labels are read at that time too.
const drainEvery = 10 * time.Millisecond

// CPUProfile samples the processor time of the process for a while, until the context is done or the process ends, and returns
// the profile that the runtime's own CPU profiler would return: stacks with the frames of the runtime and inlined calls, and
// the labels of goroutines. In addition it has the functions of C code in the executable, in shared libraries and in the vDSO. Those
// without a symbol have the name of their file, as in "[libc.so.6]". If a function of such code or its caller is not
// known, the frame is runtime._ExternalCode.
//
// The samples are taken by an eBPF program, which requires CAP_BPF and CAP_PERFMON. Where it is not permitted, they are taken by
// perf events of the threads, which the kernel permits for processes of the same user if kernel.perf_event_paranoid is at most
// 2, in user mode only if it is 2. Then a reader that the kernel wakes at each sample reads the goroutine of the thread. If
// the thread has run meanwhile, the sample has the label "goroutine" with the value "unknown" and no other labels, and the stack
// ends at the system stack if the thread used that. The field Late counts these samples.
//
// The process is not stopped, and its memory is not changed.
//
// The error wraps one of the package's errors where one applies. The error of the context is not returned.
func (p *Process) CPUProfile(ctx context.Context, opt CPUOptions) (*CPUProfile, error) {
	if opt.Rate == 0 {
		opt.Rate = DefaultCPURate
	}
	r := &cpuRecording{proc: p.proc, opt: opt, labels: p.proc.LabelReader(), began: time.Now()}
	if err := r.open(perf.Options{Rate: opt.Rate, BufferBytes: bufferBytes(opt.BufferBytes), GC: opt.GC}); err != nil {
		return nil, p.proc.UnlessReplaced(err)
	}
	s := r.sampler
	defer s.Close()
	if opt.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opt.Duration)
		defer cancel()
	}
	r.build = pprof.NewBuilder(r.began, p.code(), cpuValues...)
	r.build.Prefer(cpuValues[1].Type)
	r.build.Sampled(cpuValues[1], s.Period().Nanoseconds())
	if err := r.record(ctx); err != nil {
		return nil, fmt.Errorf("process %d: %w", p.proc.PID(), err)
	}
	return r.profile()
}

var cpuValues = []pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}

// cpuSampler samples processor time: perf.Sampler or perf.Plain.
type cpuSampler interface {
	Period() time.Duration
	Start() error
	Drain(func(*perf.Sample)) error
	Stop() error
	Lost() (uint64, error)
	Close() error
}

// cpuRecording is a CPU profile that is being recorded.
type cpuRecording struct {
	proc    *goproc.Process
	opt     CPUOptions
	sampler cpuSampler
	plain   *perf.Plain // the sampler, if it works without eBPF
	labels  *goproc.LabelReader
	build   *pprof.Builder
	began   time.Time

	program uint64 // see perf.Sample

	firstCPU, lastCPU int64 // processor time of the process, in nanoseconds
	done              CPUProfile
}

// open opens a sampler: by eBPF where it is permitted.
func (r *cpuRecording) open(opt perf.Options) error {
	why := errors.New("eBPF disabled")
	if !r.opt.NoEBPF {
		s, err := perf.New(r.proc, opt)
		if err == nil {
			r.sampler = s
			return nil
		}
		if !errors.Is(err, ErrPermission) && !errors.Is(err, ErrUnsupported) {
			return err
		}
		why = err
	}
	s, err := perf.NewPlain(r.proc, opt)
	switch {
	case err == nil:
		r.sampler, r.plain = s, s
		r.done.NoEBPF, r.done.UserOnly = why.Error(), s.UserOnly()
		return nil
	case r.opt.NoEBPF || errors.Is(err, ErrExited):
		return err
	}
	return fmt.Errorf("%w; %w", why, err)
}

// record samples until the context is done or the process ends.
func (r *cpuRecording) record(ctx context.Context) error {
	var err error
	if r.firstCPU, err = r.around(r.sampler.Start); err != nil {
		return err
	}
	r.lastCPU = r.firstCPU
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for r.done.Ended == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-tick.C:
			r.done.Ended = r.proc.Ended()
		}
		if cpu, err := r.proc.CPUTime(); err == nil {
			r.lastCPU = cpu
		}
		if errors.Is(r.done.Ended, ErrExec) && r.done.Samples == 0 {
			return nil // there may be samples of the other program
		}
		if err := r.sampler.Drain(r.add); err != nil {
			return err
		}
	}
	r.build.Lasted(time.Since(r.began))
	if r.done.Ended != nil {
		err = r.sampler.Stop()
	} else if cpu, e := r.around(r.sampler.Stop); !errors.Is(e, ErrExited) {
		r.lastCPU, err = cpu, e
	}
	if err != nil {
		return err
	}
	return r.sampler.Drain(r.add)
}

// around calls a function and returns the processor time of the process in the middle of the call, or ErrExited.
func (r *cpuRecording) around(call func() error) (int64, error) {
	before, errBefore := r.proc.CPUTime()
	if err := call(); err != nil {
		return 0, err
	}
	after, errAfter := r.proc.CPUTime()
	if err := cmp.Or(errBefore, errAfter); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrExited, err)
	}
	r.done.unsure += time.Duration(after-before) / 2
	return before + (after-before)/2, nil
}

// add adds a sample to the profile, unless the process has executed another program.
func (r *cpuRecording) add(s *perf.Sample) {
	if r.done.Samples == 0 {
		r.program = s.Program
	}
	if s.Program != r.program {
		return
	}
	stack := r.proc.ThreadStack(&s.ThreadState)
	labels, certain := r.labels.Read(&s.ThreadState)
	if !certain {
		r.done.Labels += uint64(s.Weight)
	}
	if s.Late {
		r.done.Late += uint64(s.Weight)
		labels = map[string]string{"goroutine": "unknown"}
	}
	if stack.Unknown {
		r.done.Unknown += uint64(s.Weight)
	}
	if stack.Truncated {
		r.done.Cut += uint64(s.Weight)
	}
	if s.InKernel {
		r.done.Kernel += uint64(s.Weight)
	}
	own := map[string]string{}
	if r.opt.Goroutines && s.GoID != 0 {
		own["goroutine"], own["start"] = strconv.FormatUint(s.GoID, 10), r.proc.Origin(0, s.Start).Start.Func
	}
	if s.GC != "" {
		own["gc"] = s.GC
	}
	if len(own) > 0 {
		maps.Copy(own, labels)
		labels = own
	}
	r.done.Samples += uint64(s.Weight)
	r.build.Add(pprof.Locations(stack.Frames), labels, s.Weight, s.Weight*r.sampler.Period().Nanoseconds())
}

// What was not sampled is reported if it is more than this share of the processor time, and this number of periods.
const (
	maxUnsampled        = 0.02
	maxUnsampledPeriods = 20
)

// profile returns the profile.
func (r *cpuRecording) profile() (*CPUProfile, error) {
	c := &r.done
	c.Profile = r.build.Profile()
	c.CPU = time.Duration(r.lastCPU - r.firstCPU)
	var err error
	if c.Lost, err = r.sampler.Lost(); err != nil {
		return nil, err
	}
	if r.plain != nil {
		c.Unseen, c.Refused, c.Refusal = r.plain.Unsampled()
	}
	r.build.Comment(fmt.Sprintf("cpu profile of process %d by Loupe: %s of %.2f s of processor time",
		r.proc.PID(), english.Count(c.Samples, "sample"), c.CPU.Seconds()))
	if c.NoEBPF != "" {
		r.build.Comment("sampled by perf events of the threads, not by eBPF: " + c.NoEBPF)
	} else {
		r.build.Comment("sampled by eBPF")
	}
	for _, line := range c.Missing() {
		r.build.Comment(line)
	}
	return c, c.CheckValid()
}

// Missing describes what the profile does not contain or does not know, one line each. It is empty if nothing is missing.
func (c *CPUProfile) Missing() []string {
	var lines []string
	if c.Lost > 0 {
		lines = append(lines, fmt.Sprintf("%s lost because the buffer was full (use a lower rate)", english.Count(c.Lost, "sample")))
	}
	if s := c.Sampled(); s < 1-maxUnsampled && float64(c.CPU)*(1-s) > float64(maxUnsampledPeriods*c.Period) {
		lines = append(lines, fmt.Sprintf("%.1f %% of the processor time was not sampled", 100*(1-s)))
	}
	if c.UserOnly {
		lines = append(lines, "processor time in the kernel was not sampled (requires CAP_PERFMON, or kernel.perf_event_paranoid of at most 1)")
	}
	if c.Refused > 0 {
		line := fmt.Sprintf("%s not sampled: the kernel refused their perf events: %v", english.Count(c.Refused, "thread"), c.Refusal)
		if errors.Is(c.Refusal, syscall.EMFILE) {
			line += "; " + filelimit.Advice
		}
		lines = append(lines, line)
	}
	if c.Unseen > time.Duration(c.Period) {
		lines = append(lines, fmt.Sprintf("%.2f s of processor time of new threads was not sampled", c.Unseen.Seconds()))
	}
	if c.Late > 0 {
		lines = append(lines, fmt.Sprintf("%s without labels and callers of the system stack: the thread had run before its goroutine was read", english.Count(c.Late, "sample")))
	}
	if c.Unknown > 0 {
		lines = append(lines, fmt.Sprintf("%s in code whose callers are unknown", english.Count(c.Unknown, "sample")))
	}
	if c.Cut > 0 {
		lines = append(lines, fmt.Sprintf("%s with a truncated stack", english.Count(c.Cut, "sample")))
	}
	if c.Labels > 0 {
		lines = append(lines, fmt.Sprintf("%s whose labels may be those of other goroutines: they had changed before they were read", english.Count(c.Labels, "sample")))
	}
	switch {
	case errors.Is(c.Ended, ErrExited):
		lines = append(lines, "the process exited before the end of the profile")
	case c.Ended != nil:
		lines = append(lines, "the process executed another program before the end of the profile")
	}
	return lines
}
