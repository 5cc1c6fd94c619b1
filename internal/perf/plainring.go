package perf

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
)

// eventRing is the ring buffer of the perf events of one processor (perf_event_open(2), struct perf_event_mmap_page).
type eventRing struct {
	fd     int // the event that owns the ring buffer
	pages  []byte
	data   []byte
	head   *uint64
	tail   *uint64
	record []byte // the current one
}

// Sizes of a ring buffer. An ordinary user may map kernel.perf_event_mlock_kb for each processor, which is 516 KiB by default, and
// the limit of locked memory in addition.
const (
	maxEventRing = 8 << 20
	minEventRing = 128 << 10 // more than a record has
)

// Positions in struct perf_event_mmap_page.
const (
	mmapDataHead = 1024
	mmapDataTail = 1032
)

// newEventRing returns a ring buffer for a processor. The kernel binds it to the calling thread.
func newEventRing(cpu, size int) (*eventRing, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Clockid: unix.CLOCK_MONOTONIC, Wakeup: 1, // byte, so at each record of any type
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitUseClockID | unix.PerfBitWatermark}
	fd, err := unix.PerfEventOpen(&attr, 0, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("perf_event_open: %w", err)
	}
	pages, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mapping a buffer of %d KiB: %w", size>>10, err)
	}
	return &eventRing{fd: fd, pages: pages, data: pages[os.Getpagesize():],
		head: (*uint64)(unsafe.Pointer(&pages[mmapDataHead])), tail: (*uint64)(unsafe.Pointer(&pages[mmapDataTail]))}, nil
}

// drain calls f with the type, the flags and the contents of each record, which are valid during the call.
func (r *eventRing) drain(f func(kind uint32, misc uint16, body []byte)) {
	const header = 8
	size := uint64(len(r.data))
	tail := atomic.LoadUint64(r.tail)
	for head := atomic.LoadUint64(r.head); tail < head; {
		word := binary.LittleEndian.Uint64(r.data[tail%size:]) // records are aligned
		length := max(word>>48, header)
		at := (tail + header) % size
		r.record = append(r.record[:0], r.data[at:min(at+length-header, size)]...)
		r.record = append(r.record, r.data[:length-header-uint64(len(r.record))]...)
		tail += length
		atomic.StoreUint64(r.tail, tail)
		f(uint32(word), uint16(word>>32), r.record)
	}
}

func (r *eventRing) close() {
	unix.Munmap(r.pages)
	unix.Close(r.fd)
}

// rawSample is a sample as the kernel writes it, with the sampleType of this package.
type rawSample struct {
	tid   int
	time  time.Duration // CLOCK_MONOTONIC
	count uint64        // of the event: nanoseconds for which the thread has used the processor
	event uint64        // ID of the event
	state goproc.ThreadState
}

const sampleType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_READ | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER

// stackBytes is the part of the stack that a sample has, as in the eBPF program.
const stackBytes = int(samplerLoupeSampleLimitLOUPE_STACK_BYTES)

// decodePlain decodes the contents of a sample. The state has the registers and the stack, which refers to the record.
func decodePlain(b []byte) (s rawSample, ok bool) {
	const fixed = 8 + 8 + 16 + 8 // TID, TIME, READ, and the ABI of the registers
	if len(b) < fixed {
		return s, false
	}
	s.tid = int(binary.LittleEndian.Uint32(b[4:]))
	s.time = time.Duration(binary.LittleEndian.Uint64(b[8:]))
	s.count, s.event = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	abi := binary.LittleEndian.Uint64(b[32:])
	b = b[fixed:]
	if abi == unix.PERF_SAMPLE_REGS_ABI_NONE {
		return s, true // the thread is about to exit, and has no user mode any more
	}
	if abi != unix.PERF_SAMPLE_REGS_ABI_64 || len(b) < 8*len(sampledRegs)+8 {
		return s, false
	}
	reg := map[regUse]uint64{}
	for i, use := range sampledRegs {
		reg[use] = binary.LittleEndian.Uint64(b[8*i:])
	}
	for use, value := range reg {
		if value == ^uint64(0) { // not known in the kernel
			reg[use] = 0
		}
	}
	s.state.PC, s.state.SP, s.state.LR, s.state.FP = reg[usePC], reg[useSP], reg[useLR], reg[useFP]
	b = b[8*len(sampledRegs):]
	size := binary.LittleEndian.Uint64(b)
	b = b[8:]
	s.state.Stack.Addr = s.state.SP
	if size == 0 {
		return s, true
	}
	if size > uint64(len(b)) || uint64(len(b))-size < 8 {
		return s, false
	}
	copied := binary.LittleEndian.Uint64(b[size:])
	s.state.Stack.Data = b[:min(copied, size)]
	return s, true
}

// regUse is the use of a register of a sample.
type regUse int

const (
	usePC regUse = iota
	useSP
	useLR
	useFP
)
