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

	Namespace uint64         // the PID namespace in which Loupe has its number; 0 in notes of older engines
	Remains   ptrace.Remains // what a killed engine has left besides the memory

	beat uint64 // CLOCK_MONOTONIC when the engine was last seen at work, in nanoseconds
}

// Alive reports whether the engine that wrote the notes is still at work: its process, where that would be visible from
// here, else what it does.
func (n *Notes) Alive() bool {
	if n.Loupe <= 0 || n.Begun == 0 {
		return n.beat != 0 && n.recent()
	}
	if ptrace.Began(int(n.Loupe)) == n.Begun {
		return true
	}
	return n.Namespace != pidNamespace() && n.recent()
}

func (n *Notes) recent() bool {
	now := uint64(monotonic())
	return n.beat <= now && now-n.beat < uint64(Silence)
}

// Silence is the time without a sign after which an engine is taken for dead whose process is in another PID namespace.
const Silence = 3 * time.Second

// pidNamespace returns the identity of this process's PID namespace; noNamespace if it is unknown.
func pidNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return noNamespace
	}
	return st.Ino
}

const noNamespace = ^uint64(0)

func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail with this clock
	return ts.Nano()
}

// A pulse calls a function every beatEvery, also while nobody reads the engine's events.
type pulse struct{ stop, stopped chan struct{} }

// beatEvery is well below Silence, also on a busy machine.
const beatEvery = Silence / 30

func startPulse(beat func()) *pulse {
	p := &pulse{make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(p.stopped)
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				beat()
			case <-p.stop:
				return
			}
		}
	}()
	return p
}

// end stops the pulse. The function is not called after end returns.
func (p *pulse) end() {
	close(p.stop)
	<-p.stopped
}

// beatAt is the offset of the beat in the notes.
const beatAt = 8

// beat shows other Loupes that the engine is alive.
func (in *installation) beat() {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&in.shared.Mem[beatAt])), uint64(monotonic()))
}

const (
	notesSize  = 16 << 10
	notesMagic = 0x0002_6570_756f_6c00 // the version of the format, and "loupe"
	firstMagic = 0x0001_6570_756f_6c00 // of the format without Namespace
	maxEdit    = 64
)

var errNotes = errors.New("malformed notes")

// note writes the notes before the changes that they describe are made: the edits, then their number, and the magic number
// last, so that the notes are valid at any moment.
func (in *installation) note(mem []byte, n Notes) error {
	n.Loupe, n.Begun, n.Namespace = int32(os.Getpid()), ptrace.Began(os.Getpid()), pidNamespace()
	n.Code, n.Size, n.beat = uint64(in.code), uint64(in.size), uint64(monotonic())
	b := n.append(make([]byte, 0, notesSize))
	if len(b) > notesSize {
		return fmt.Errorf("too many places: %d", len(in.edits))
	}
	copy(mem[editsAt:], b[editsAt:])
	for at := editsAt - 8; at >= 0; at -= 8 {
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&mem[at])), binary.LittleEndian.Uint64(b[at:]))
	}
	return nil
}

// editsAt is the offset of the edits in the notes, after their number.
const editsAt = 11 * 8

func (n *Notes) append(b []byte) []byte {
	for _, v := range []uint64{notesMagic, n.beat, uint64(n.Loupe), n.Begun, n.Base, n.Code, n.Size, n.Shared, n.Length, n.Namespace, uint64(len(n.Edits))} {
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

// parseNotes parses notes. The bytes are not trusted.
func parseNotes(b []byte) (*Notes, error) {
	next := func() (v uint64) {
		if len(b) >= 8 {
			v, b = binary.LittleEndian.Uint64(b), b[8:]
		}
		return v
	}
	magic := next()
	if magic != notesMagic && magic != firstMagic {
		return nil, errNotes
	}
	n := &Notes{beat: next(), Loupe: int32(next()), Begun: next(), Base: next(), Code: next(), Size: next(), Shared: next(), Length: next()}
	if magic != firstMagic {
		n.Namespace = next()
	}
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

// Look returns what an engine has in a process; nil when there is nothing. Shared is 0 when all that is left is what Remains
// names: then other engines can attach. Notes without Base are of an engine of an older Loupe that was killed before it had
// changed anything but the memory.
func Look(pid int) (*Notes, error) {
	n, err := readNotes(pid)
	if err != nil {
		return nil, err
	}
	if n == nil {
		n = &Notes{}
	}
	n.Remains, err = ptrace.FindRemains(pid, ptrace.Interval{Lo: n.Base, Hi: n.Base + n.Size})
	if err != nil {
		return nil, err
	}
	if n.Shared == 0 && n.Remains.Empty() {
		return nil, nil
	}
	return n, nil
}

// readNotes returns the notes in a process, or nil if it has no notes.
func readNotes(pid int) (*Notes, error) {
	at, ok, err := ptrace.OccupiedBy(pid)
	if err != nil || !ok {
		return nil, err
	}
	b := make([]byte, notesSize)
	if err := ptrace.ReadMemory(pid, at, b); err != nil {
		return nil, fmt.Errorf("notes of an engine: %w", err)
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
		return nil, fmt.Errorf("process %d: Loupe, process %d, observes it with engine inline: stop that Loupe first", pid, n.Loupe)
	}
	in := &installation{
		pid: pid, signalStacks: signalStacks, sharedAt: n.Shared, sharedBy: int(n.Length), base: n.Base, code: int(n.Code),
		size: int(n.Size), edits: n.Edits,
	}
	if n.Shared != 0 && n.Base == 0 { // the engine was killed at this step
		if in.sharedBy, err = sizeOf(pid, n.Shared); err != nil {
			return nil, err
		}
	}
	if err := in.repair(); err != nil {
		return nil, err
	}
	if n.Remains.Empty() {
		return n, nil
	}
	return n, in.whenFree(func(s *ptrace.Stopped) error {
		if err := in.knowHandlers(s); err != nil {
			return err
		}
		return s.Clean(ptrace.Interval{})
	})
}

// sizeOf returns the size of the mapping at an address; 0 if there is none.
func sizeOf(pid int, addr uint64) (int, error) {
	maps, err := procmap.Read(pid)
	if err != nil {
		return 0, err
	}
	for _, m := range maps {
		if m.Start == addr {
			return int(m.End - m.Start), nil
		}
	}
	return 0, nil
}

// repair is like remove, but some of the edits may not have been written.
func (in *installation) repair() error {
	var made []ptrace.Edit
	for _, e := range in.edits {
		now := make([]byte, len(e.New))
		if err := ptrace.ReadMemory(in.pid, e.Addr, now); err != nil {
			return err
		}
		if !bytes.Equal(now, e.Old) {
			made = append(made, e)
		}
	}
	in.edits, in.patched = made, len(made) > 0
	return in.remove()
}
