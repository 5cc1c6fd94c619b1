package perf

import (
	"errors"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/internal/goproc"
)

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -go-package perf -target amd64,arm64 -no-global-types -type loupe_sample -type loupe_sample_config -type loupe_sample_limit -type loupe_sample_flag -type loupe_control sampler sample.bpf.c -- -O2 -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu

// A Sample is one sample of the processor time of a thread.
type Sample struct {
	Time     time.Duration // CLOCK_MONOTONIC
	TID      uint32        // the thread, in the initial PID namespace
	InKernel bool          // it was in the kernel: in a system call, a page fault or an interrupt

	// Weight is the number of periods of processor time that the sample stands for. It is more than 1 if the thread used that
	// time in parts between the ticks of the sampler's clock.
	Weight int64

	// Late says that the thread had run before the rest of its state was read: of the state only the registers and Stack are known.
	// Samples of the eBPF program are never late.
	Late bool

	// GC is the phase of the garbage collector, if Options.GC is set, unless the sample is late.
	GC string

	// Program identifies the program that the process executed. It changes with each execve.
	Program uint64

	goproc.ThreadState
}

// gcPhase returns the phase of the garbage collector. Without times it is that of a program that has not collected anything.
func gcPhase(times [4]uint64) string {
	return goproc.GCTimes{SweepTermination: int64(times[0]), Mark: int64(times[1]), MarkTermination: int64(times[2]), End: int64(times[3])}.Phase()
}

var errRecord = errors.New("malformed record of the eBPF program")

// decode decodes a record. The sample refers to the memory of the record.
func (s *Sample) decode(raw []byte) error {
	const header = int(unsafe.Sizeof(samplerLoupeSample{}))
	if len(raw) < header {
		return errRecord
	}
	r := (*samplerLoupeSample)(unsafe.Pointer(unsafe.SliceData(raw)))
	raw = raw[header:]
	size, gSize := uint64(r.Size), uint64(r.G_size)
	if size+gSize > uint64(len(raw)) {
		return errRecord
	}
	*s = Sample{
		Time: time.Duration(r.Time), TID: r.Tid, Weight: int64(r.Weight), Program: r.ExecId, GC: gcPhase(r.GcTimes), InKernel: samplerLoupeSampleFlag(r.Flags)&samplerLoupeSampleFlagLOUPE_IN_KERNEL != 0,
		ThreadState: goproc.ThreadState{
			PC: r.Pc, SP: r.Sp, LR: r.Lr, FP: r.Fp,
			M: r.M, G: r.Curg, GM: r.CurgM, GoID: r.Goid, Start: r.Startpc, Labels: r.Labels,
			StackLo: r.G_lo, StackHi: r.G_hi,
			SchedPC: r.SchedPc, SchedSP: r.SchedSp, SchedLR: r.SchedLr,
			SyscallPC: r.SyscallPc, SyscallSP: r.SyscallSp, VDSOPC: r.VdsoPc, VDSOSP: r.VdsoSp,
			CgoCalls: r.Ncgo, Collecting: r.Preemptoff != 0,
			Stack:     goproc.StackCopy{Addr: r.Base, Data: raw[:size]},
			Goroutine: goproc.StackCopy{Addr: r.G_base, Data: raw[size:][:gSize]},
		},
	}
	return nil
}
