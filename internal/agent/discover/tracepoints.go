package discover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
)

// tracepoints report the same as a connector, by eBPF programs at the scheduler's tracepoints. They work in any network namespace.
type tracepoints struct {
	reader  *ringbuf.Reader
	record  ringbuf.Record
	counter *ebpf.Map // of notices that did not fit
	lost    uint64    // its value at the last batch
	opened  []io.Closer
}

// ringBytes is the size of the ring buffer; a notice takes 16 bytes.
const ringBytes = 256 << 10

// exitFlag marks the notice of an exit, in the half with the thread ID: PIDs are below 1<<22.
const exitFlag = 1 << 31

// openTracepoints attaches the programs. The error says why that is impossible. It requires CAP_BPF and CAP_PERFMON.
func openTracepoints(bytes int) (*tracepoints, error) {
	if err := initialNamespaces(); err != nil {
		return nil, err
	}
	t := &tracepoints{}
	if err := t.open(bytes); err != nil {
		t.close()
		return nil, fmt.Errorf("requires CAP_BPF, CAP_PERFMON and Linux 5.8: %w", err)
	}
	return t, nil
}

func (t *tracepoints) open(bytes int) error {
	if err := rlimit.RemoveMemlock(); err != nil {
		return err
	}
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "loupe_notices", Type: ebpf.RingBuf, MaxEntries: uint32(bytes)})
	if err != nil {
		return err
	}
	t.opened = append(t.opened, ring)
	if t.counter, err = ebpf.NewMap(&ebpf.MapSpec{Name: "loupe_lost", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}); err != nil {
		return err
	}
	t.opened = append(t.opened, t.counter)
	if t.reader, err = ringbuf.NewReader(ring); err != nil {
		return err
	}
	t.opened = append(t.opened, t.reader)
	for name, exit := range map[string]bool{"sched_process_exec": false, "sched_process_exit": true} {
		code := noticeProgram(ring, t.counter, exit)
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "loupe_notice", Type: ebpf.RawTracepoint, Instructions: code, License: "GPL"})
		if err != nil {
			return err
		}
		t.opened = append(t.opened, prog)
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: prog})
		if err != nil {
			return err
		}
		t.opened = append(t.opened, l)
	}
	return nil
}

// noticeProgram returns a program that sends the IDs of the current process and thread: of each, or for exits only of first threads.
func noticeProgram(ring, lost *ebpf.Map, exit bool) asm.Instructions {
	program := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
	}
	if exit {
		program = append(program,
			asm.Mov.Reg32(asm.R1, asm.R0), // the thread
			asm.Mov.Reg(asm.R2, asm.R0),
			asm.RSh.Imm(asm.R2, 32), // the process
			asm.JNE.Reg(asm.R1, asm.R2, "done"),
			asm.LoadImm(asm.R1, exitFlag, asm.DWord),
			asm.Or.Reg(asm.R0, asm.R1),
		)
	}
	return append(program,
		asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -8),
		asm.Mov.Imm(asm.R3, 8),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "done"),
		asm.StoreImm(asm.RFP, -8, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, lost.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -8),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "done"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("done"),
		asm.Return(),
	)
}

func (t *tracepoints) receive() (batch, error) {
	var b batch
	for i := range maxBatch {
		if i > 0 && t.reader.AvailableBytes() == 0 {
			break
		}
		if err := t.reader.ReadInto(&t.record); err != nil {
			return b, err
		}
		if raw := t.record.RawSample; len(raw) >= 8 {
			ids := binary.NativeEndian.Uint64(raw)
			b.notices = append(b.notices, notice{pid: int(ids >> 32), exit: ids&exitFlag != 0})
		}
	}
	var lost uint64 // when the ring was full, records were waiting, so that this is read after them
	if err := t.counter.Lookup(uint32(0), &lost); err != nil {
		return b, err
	}
	b.lost, t.lost = lost != t.lost, lost
	return b, nil
}

func (t *tracepoints) close() error {
	var errs []error
	for i := len(t.opened) - 1; i >= 0; i-- {
		errs = append(errs, t.opened[i].Close())
	}
	return errors.Join(errs...)
}
