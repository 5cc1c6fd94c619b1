package spanstest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/testmount"
	"github.com/loupe-go/loupe/spans"
)

// ProfilerPath returns a path for the map of a profiler, which does not exist yet.
func ProfilerPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(testmount.New(t, "bpf", ""), "otel", "traces_ctx_v1")
}

// A ProfilerSample is one of a program in user mode, with what the map of a profiler says about its thread.
type ProfilerSample struct {
	Time   int64 // in nanoseconds since 1970
	Thread uint64
	PC     uint64 // in the image
	G      uint64 // the ID of the goroutine, if PC is in Go code
	Trace  trace.TraceID
	Span   trace.SpanID // invalid: the map has no entry
}

// A Profiler samples a process as an eBPF profiler does: by a program on perf events that looks up the current thread in the map.
type Profiler struct {
	t       testing.TB
	events  []int
	ring    *ringbuf.Reader
	done    sync.WaitGroup
	bias    uint64
	binary  *gobin.Binary
	offset  int64 // from CLOCK_MONOTONIC to Unix time
	samples []ProfilerSample
}

// samplePeriod is the time between two samples of a processor.
const samplePeriod = 97 * time.Microsecond

// SampleProfiler begins to sample a process, given the path of the map.
func SampleProfiler(t testing.TB, pid int, path string) *Profiler {
	t.Helper()
	proc, err := goproc.Open(pid, goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	goid, ok := proc.Layout().Field("runtime.g.goid")
	if !ok {
		t.Fatal("the layout of g is unknown")
	}
	bin, err := gobin.Open(proc.ImagePath())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bin.Close() })
	contexts, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer contexts.Close()
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.PerfEvent, License: "GPL", Instructions: sampler(t, pid, int32(goid.Offset), contexts, ring)})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	p := &Profiler{t: t, bias: proc.LoadBias(), binary: bin, offset: unixOffset()}
	if p.ring, err = ringbuf.NewReader(ring); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	for cpu := range runtime.NumCPU() {
		p.open(cpu, prog.FD())
	}
	p.done.Go(p.read)
	return p
}

// sampler returns a program that sends a ProfilerSample if the current thread is one of a process.
func sampler(t testing.TB, pid int, goid int32, contexts, ring *ebpf.Map) asm.Instructions {
	pc, g := int16(128), int16(8) // rip and r14 in struct pt_regs
	if runtime.GOARCH == "arm64" {
		pc, g = 256, 224 // pc and x28
	}
	const key, ns, sample, size = -8, -16, -72, 56 // on the stack
	ids, err := probe.IDsOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	mine := asm.Instructions{asm.LoadMem(asm.R0, asm.RFP, key+4, asm.Word)}
	if ids.Ino != 0 {
		mine = asm.Instructions{
			asm.LoadImm(asm.R1, int64(ids.Dev), asm.DWord), asm.LoadImm(asm.R2, int64(ids.Ino), asm.DWord),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, ns), asm.Mov.Imm(asm.R4, 8),
			asm.FnGetNsCurrentPidTgid.Call(),
			asm.JNE.Imm(asm.R0, 0, "exit"),
			asm.LoadMem(asm.R0, asm.RFP, ns+4, asm.Word),
		}
	}
	begin := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, key, asm.R0, asm.DWord), asm.StoreMem(asm.RFP, sample+8, asm.R0, asm.DWord),
	}
	return append(append(begin, mine...), asm.Instructions{
		asm.JNE.Imm(asm.R0, int32(ids.PID), "exit"),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, sample, asm.R0, asm.DWord),
		asm.LoadMem(asm.R0, asm.R6, pc, asm.DWord), asm.StoreMem(asm.RFP, sample+16, asm.R0, asm.DWord),
		asm.LoadMem(asm.R3, asm.R6, g, asm.DWord), asm.Add.Imm(asm.R3, goid),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, sample+24), asm.Mov.Imm(asm.R2, 8),
		asm.FnProbeReadUser.Call(),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, sample+32, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, sample+40, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, sample+48, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, contexts.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "send"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.StoreMem(asm.RFP, sample+32, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord), asm.StoreMem(asm.RFP, sample+40, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, 16, asm.DWord), asm.StoreMem(asm.RFP, sample+48, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring.FD()).WithSymbol("send"),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, sample), asm.Mov.Imm(asm.R3, size), asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}...)
}

// open samples what a processor runs in user mode.
func (p *Profiler) open(cpu, prog int) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: uint64(samplePeriod), Bits: unix.PerfBitDisabled | unix.PerfBitExcludeIdle | unix.PerfBitExcludeKernel}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		p.t.Fatal(err)
	}
	p.events = append(p.events, fd)
	if err := errors.Join(unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog), unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *Profiler) read() {
	for {
		record, err := p.ring.Read()
		if errors.Is(err, os.ErrClosed) || errors.Is(err, ringbuf.ErrFlushed) {
			return
		}
		var s ProfilerSample
		if err == nil {
			err = binary.Read(bytes.NewReader(record.RawSample), binary.NativeEndian, &s)
		}
		if err != nil {
			p.t.Error(err)
			return
		}
		s.Time += p.offset
		s.PC -= p.bias
		p.samples = append(p.samples, s)
	}
}

// Stop ends the sampling and returns the samples.
func (p *Profiler) Stop() []ProfilerSample {
	for _, fd := range p.events {
		unix.Close(fd)
	}
	p.events = nil
	p.ring.Flush()
	p.done.Wait()
	p.ring.Close()
	return p.samples
}

// In reports whether a sample is in a function.
func (p *Profiler) In(s *ProfilerSample, name string) bool {
	f, ok := p.binary.LookupFunc(name)
	if !ok {
		p.t.Fatalf("no function %s", name)
	}
	return s.PC >= f.Entry && s.PC < f.End
}

// Func returns the name of the function in which a sample is; empty if that is not known.
func (p *Profiler) Func(s *ProfilerSample) string {
	f, _ := p.binary.FuncForPC(s.PC)
	return f.Name
}

// clockError is more than the error of two conversions from a clock to another, in nanoseconds.
const clockError = 50_000

// CheckProfiler checks that the samples with a span are of these spans, and were taken while the span lasted. It returns the number of
// samples by span.
func CheckProfiler(t testing.TB, samples []ProfilerSample, list []*spans.Span) map[*spans.Span]int {
	t.Helper()
	byID := map[trace.SpanID]*spans.Span{}
	for _, s := range list {
		byID[s.Context.SpanID()] = s
	}
	counts := map[*spans.Span]int{}
	for i := range samples {
		s := &samples[i]
		if !s.Span.IsValid() {
			continue
		}
		span := byID[s.Span]
		switch {
		case span == nil:
			t.Errorf("a sample has span %s, which was not reported", s.Span)
			continue
		case s.Trace != span.Context.TraceID():
			t.Errorf("a sample of span %s has trace %s, want %s", s.Span, s.Trace, span.Context.TraceID())
		case s.Time < span.Start-clockError || s.Time > span.End+clockError:
			t.Errorf("a sample %v after the begin of %q, which lasted %v", time.Duration(s.Time-span.Start), span.Name, time.Duration(span.End-span.Start))
		}
		counts[span]++
	}
	return counts
}

// unixOffset returns the offset of Unix time from the monotonic clock, by the shortest of many readings.
func unixOffset() int64 {
	best, offset := int64(1<<62), int64(0)
	for range 1000 {
		var before, after unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &before)
		wall := time.Now().UnixNano()
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &after)
		if d := after.Nano() - before.Nano(); d < best {
			best, offset = d, wall-(before.Nano()+after.Nano())/2
		}
	}
	return offset
}
