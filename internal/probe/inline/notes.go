package inline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// Notes are what an engine leaves in the memory that it shares with a process, at its beginning: who it is, and what it has
// changed. When the engine is killed they are all that is left to know how the process was.
type Notes struct {
	Loupe  int32  // the process that wrote them
	Begun  uint64 // when that process began, in the kernel's ticks since the machine was started
	Base   uint64 // where code and data are
	Code   uint64 // bytes that are executed
	Size   uint64 // bytes of both
	Shared uint64 // where this memory is
	Length uint64 // of this memory
	Edits  []ptrace.Edit

	beat uint64 // CLOCK_MONOTONIC when the engine was last seen at work, in nanoseconds
}

// Alive reports whether the engine that wrote the notes is still there: as a process that can be seen from here, or by
// what it does, when it is one that cannot.
func (n *Notes) Alive() bool {
	if n.Loupe > 0 && n.Begun != 0 && ptrace.Began(int(n.Loupe)) == n.Begun {
		return true
	}
	now := uint64(monotonic())
	return n.beat <= now && now-n.beat < uint64(silence)
}

// silence is after what time without a sign an engine is taken for dead, unless its process can be seen.
const silence = 3 * time.Second

func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail with this clock
	return ts.Nano()
}

// beatAt is where in the notes the beat is.
const beatAt = 8

// beat tells others that the engine is at work.
func (in *installation) beat() {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&in.shared.Mem[beatAt])), uint64(monotonic()))
}

const (
	notesSize  = 16 << 10
	notesMagic = 0x0001_6570_756f_6c00 // the version of the format, and "loupe"
	maxEdit    = 64
)

var errNotes = errors.New("no notes that make sense")

// note writes the notes, before anything is changed.
func (in *installation) note() error {
	n := Notes{
		Loupe: int32(os.Getpid()), Begun: ptrace.Began(os.Getpid()), Base: in.base, Code: uint64(in.code), Size: uint64(in.size),
		Shared: in.sharedAt, Length: uint64(in.sharedBy), Edits: in.edits, beat: uint64(monotonic()),
	}
	b := n.append(make([]byte, 0, notesSize))
	if len(b) > notesSize {
		return fmt.Errorf("%d places are too many", len(in.edits))
	}
	copy(in.shared.Mem[8:], b[8:])
	copy(in.shared.Mem, b[:8])
	return nil
}

func (n *Notes) append(b []byte) []byte {
	for _, v := range []uint64{notesMagic, n.beat, uint64(n.Loupe), n.Begun, n.Base, n.Code, n.Size, n.Shared, n.Length, uint64(len(n.Edits))} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, e := range n.Edits {
		b = binary.LittleEndian.AppendUint64(b, e.Addr)
		b = append(b, byte(len(e.Old)))
		b = append(b, e.Old...)
		b = append(b, e.New...)
	}
	return b
}

// parseNotes reads notes, which may be anything.
func parseNotes(b []byte) (*Notes, error) {
	next := func() (v uint64) {
		if len(b) >= 8 {
			v, b = binary.LittleEndian.Uint64(b), b[8:]
		}
		return v
	}
	if next() != notesMagic {
		return nil, errNotes
	}
	n := &Notes{beat: next(), Loupe: int32(next()), Begun: next(), Base: next(), Code: next(), Size: next(), Shared: next(), Length: next()}
	count := next()
	if n.Base == 0 || n.Code > n.Size || n.Size > 1<<40 || n.Length > 1<<40 || count > notesSize {
		return nil, errNotes
	}
	for range count {
		e := ptrace.Edit{Addr: next()}
		if len(b) < 1 || b[0] == 0 || b[0] > maxEdit || len(b) < 1+2*int(b[0]) {
			return nil, errNotes
		}
		size := int(b[0])
		e.Old, e.New, b = b[1:1+size], b[1+size:1+2*size], b[1+2*size:]
		n.Edits = append(n.Edits, e)
	}
	return n, nil
}

// Look returns the notes of an engine that has put code into a process; nil when none has. Notes without edits are of an
// engine that was killed before it had changed anything but the memory.
func Look(pid int) (*Notes, error) {
	at, ok := ptrace.OccupiedBy(pid)
	if !ok {
		return nil, nil
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	defer mem.Close()
	b := make([]byte, notesSize)
	if _, err := mem.ReadAt(b, int64(at)); err != nil {
		return nil, fmt.Errorf("process %d: reading what an engine has noted there: %w", pid, err)
	}
	if binary.LittleEndian.Uint64(b) == 0 {
		return &Notes{Shared: at}, nil
	}
	n, err := parseNotes(b)
	if err != nil || n.Shared != at {
		return nil, fmt.Errorf("process %d: memory named %s at %#x: %w", pid, ptrace.Name, at, errNotes)
	}
	return n, nil
}

// Repair removes what a dead engine has left in a process, and returns its notes; nil when there was nothing.
func Repair(pid int, signalStacks func() ([]ptrace.Interval, error)) (*Notes, error) {
	n, err := Look(pid)
	if n == nil || err != nil {
		return nil, err
	}
	if n.Alive() {
		return nil, fmt.Errorf("process %d: Loupe, process %d, observes it with engine inline: end that one", pid, n.Loupe)
	}
	in := &installation{
		pid: pid, signalStacks: signalStacks, sharedAt: n.Shared, sharedBy: int(n.Length), base: n.Base, code: int(n.Code),
		size: int(n.Size), edits: n.Edits,
	}
	if n.Base == 0 { // it had not come further than this
		in.sharedBy = sizeOf(pid, n.Shared)
	}
	return n, in.repair()
}

func sizeOf(pid int, addr uint64) int {
	maps, err := procmap.Read(pid)
	if err != nil {
		return 0
	}
	for _, m := range maps {
		if m.Start == addr {
			return int(m.End - m.Start)
		}
	}
	return 0
}

// repair is remove for edits of which some may not have been made.
func (in *installation) repair() error {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", in.pid))
	if err != nil {
		return fmt.Errorf("process %d: %w", in.pid, err)
	}
	defer mem.Close()
	var made []ptrace.Edit
	for _, e := range in.edits {
		now := make([]byte, len(e.New))
		if _, err := mem.ReadAt(now, int64(e.Addr)); err != nil {
			return fmt.Errorf("process %d: reading its code at %#x: %w", in.pid, e.Addr, err)
		}
		if !bytes.Equal(now, e.Old) {
			made = append(made, e)
		}
	}
	in.edits, in.patched = made, len(made) > 0
	return in.remove()
}
