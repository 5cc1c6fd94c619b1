package inline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

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
		Shared: in.shared.Addr, Length: uint64(len(in.shared.Mem)), Edits: in.edits,
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
	for _, v := range []uint64{notesMagic, uint64(n.Loupe), n.Begun, n.Base, n.Code, n.Size, n.Shared, n.Length, uint64(len(n.Edits))} {
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
	n := &Notes{Loupe: int32(next()), Begun: next(), Base: next(), Code: next(), Size: next(), Shared: next(), Length: next()}
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
