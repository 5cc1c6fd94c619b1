package goproc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/native"
	"github.com/loupe-go/loupe/internal/procmap"
)

// nativeCode is the machine code of a process that is not Go code: C code in the executable and in shared libraries, and the vDSO.
type nativeCode struct {
	mapped []mappedCode // sorted by address
	read   time.Time    // when mapped was read
	images map[imageKey]*native.Image
	files  []io.Closer
	frames map[uint64]event.StackFrame // by address
}

// mappedCode is a mapping with machine code.
type mappedCode struct {
	procmap.Mapping
	image *native.Image // nil if its file cannot be read
	bias  uint64
}

// imageKey identifies a file.
type imageKey struct {
	dev, path string
	inode     uint64
}

// Limits of nativeCode. The mappings are read again if they are older than maxMapped, and for an address that has none
// if they are older than minMapped: the process may load and unload libraries.
const (
	maxImages    = 256
	maxMapped    = time.Second
	minMapped    = 50 * time.Millisecond
	maxVDSO      = 64 << 10
	maxAddresses = 1 << 16
)

func (n *nativeCode) close() error {
	var errs []error
	for _, f := range n.files {
		errs = append(errs, f.Close())
	}
	n.files, n.images = nil, nil
	return errors.Join(errs...)
}

// nativeStack is the part of a call stack that is not Go code.
type nativeStack struct {
	frames    []event.StackFrame // the innermost first; runtime._ExternalCode if a function or its caller is not known
	complete  bool               // it ends with the outermost frame of the thread
	truncated bool               // the copy of the stack ends before
}

// nativeStack returns the frames of a thread up to the first frame of Go code.
func (p *Process) nativeStack(t *ThreadState) nativeStack {
	var frames []event.StackFrame
	r, exact := native.Registers{PC: t.PC, SP: t.SP, FP: t.FP, LR: t.LR}, true
	for r.PC != 0 && !p.symbols.inText(r.PC) {
		at := r.PC
		if !exact {
			at-- // within the call
		}
		code, ok := p.native.find(p, at)
		if frame := p.native.frame(code, at); ok || len(frames) == 0 || frames[len(frames)-1] != frame {
			frames = append(frames, frame)
		}
		caller, callerExact, err := p.nativeCaller(code, at, r, t)
		if err != nil || caller.SP <= r.SP && len(frames) > 1 || len(frames) >= maxThreadFrames {
			return nativeStack{frames: append(frames, named(externalCode)), truncated: errors.Is(err, native.ErrStackEnds)}
		}
		r, exact = caller, callerExact
	}
	if len(frames) == 0 {
		frames = []event.StackFrame{named(externalCode)}
	}
	return nativeStack{frames: frames, complete: r.PC == 0}
}

// nativeCaller returns the registers of the caller of a frame.
func (p *Process) nativeCaller(code mappedCode, at uint64, r native.Registers, t *ThreadState) (caller native.Registers, exact bool, err error) {
	stack := func(addr uint64) (uint64, bool) { return stackImage{t.Stack.Addr, t.Stack.Data}.word(addr) }
	err = native.ErrNoInfo
	if code.image != nil {
		r := r
		r.PC = at - code.bias
		caller, exact, err = code.image.Caller(r, stack)
	}
	if !errors.Is(err, native.ErrNoInfo) {
		return caller, exact, err
	}
	// Without information the frame pointer may be one. If it is, a call precedes the return address.
	fp, okFP := stack(r.FP)
	pc, okPC := stack(r.FP + 8)
	if r.FP < r.SP || r.FP%8 != 0 || !okFP || !okPC || !p.followsCall(pc) {
		return caller, false, err
	}
	return native.Registers{PC: pc, SP: r.FP + 16, FP: fp}, false, nil
}

// followsCall reports whether an address can be a return address.
func (p *Process) followsCall(pc uint64) bool {
	if p.symbols.inText(pc) {
		return true
	}
	code, ok := p.native.find(p, pc)
	return ok && code.image != nil && code.image.FollowsCall(pc-code.bias)
}

// frame returns the frame for an address.
func (n *nativeCode) frame(code mappedCode, addr uint64) event.StackFrame {
	if f, ok := n.frames[addr]; ok {
		return f
	}
	f := named(externalCode)
	if code.Path != "" {
		f = event.StackFrame{Frame: event.Frame{Func: "[" + filepath.Base(code.Path) + "]", File: code.Path}, PC: addr}
	}
	if code.image != nil {
		if name, ok := code.image.Func(addr - code.bias); ok {
			f.Func = name
		}
	}
	if n.frames == nil || len(n.frames) >= maxAddresses {
		n.frames = map[uint64]event.StackFrame{}
	}
	n.frames[addr] = f
	return f
}

// find returns the mapping of the code at an address.
func (n *nativeCode) find(p *Process, addr uint64) (mappedCode, bool) {
	age := time.Since(n.read)
	if age > maxMapped {
		n.refresh(p)
	}
	code, ok := n.lookup(addr)
	if !ok && age > minMapped && age <= maxMapped {
		n.refresh(p)
		code, ok = n.lookup(addr)
	}
	return code, ok
}

func (n *nativeCode) lookup(addr uint64) (mappedCode, bool) {
	i, exact := slices.BinarySearchFunc(n.mapped, addr, func(m mappedCode, addr uint64) int {
		switch {
		case m.Start > addr:
			return 1
		case m.End <= addr:
			return -1
		}
		return 0
	})
	if !exact {
		return mappedCode{}, false
	}
	return n.mapped[i], true
}

// refresh reads the mappings of the process, and opens the files that are new.
func (n *nativeCode) refresh(p *Process) {
	n.read = time.Now()
	maps, err := p.maps()
	if err != nil {
		return // the process has exited, or cannot be read: the last ones are still the best
	}
	before := n.mapped
	n.mapped = nil
	for _, m := range maps {
		if !m.Exec() || m.Path == "" {
			continue
		}
		code := mappedCode{Mapping: m}
		if code.image = n.open(p, m); code.image != nil {
			var ok bool
			if code.bias, ok = code.image.LoadBias(m.Start, m.Offset); !ok {
				code.image = nil
			}
		}
		n.mapped = append(n.mapped, code)
	}
	if !slices.Equal(before, n.mapped) {
		n.frames = nil
	}
}

// open returns the image that is mapped; nil if it cannot be read.
func (n *nativeCode) open(p *Process, m procmap.Mapping) *native.Image {
	key := imageKey{m.Dev, m.Path, m.Inode}
	if im, ok := n.images[key]; ok {
		return im
	}
	if len(n.images) >= maxImages || m.Inode == 0 && m.Path != "[vdso]" {
		return nil
	}
	if n.images == nil {
		n.images = map[imageKey]*native.Image{}
	}
	im, err := n.openImage(p, m)
	if err != nil {
		p.log.Debug("no names of functions", "file", m.Path, "error", err)
	}
	n.images[key] = im // also nil: it is tried once
	return im
}

func (n *nativeCode) openImage(p *Process, m procmap.Mapping) (*native.Image, error) {
	if m.Inode == 0 { // the vDSO
		size := m.End - m.Start
		if size > maxVDSO {
			return nil, fmt.Errorf("%w: a vDSO of %d bytes", native.ErrMalformed, size)
		}
		b := make([]byte, size)
		if err := p.mem.read(b, m.Start); err != nil {
			return nil, err
		}
		return native.Open(bytes.NewReader(b))
	}
	f, err := p.mappedFile(m)
	if err != nil {
		return nil, err
	}
	im, err := native.Open(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	n.files = append(n.files, f)
	return im, nil
}
