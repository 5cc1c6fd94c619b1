package goproc

import (
	"encoding/binary"
	"slices"
)

// physical is one activation record on a stack.
type physical struct {
	pc    uint64
	exact bool // pc is the instruction that execution stopped at, not a return address
}

// stackImage is a copy of the used part of a goroutine's stack.
type stackImage struct {
	base uint64 // address of the first byte
	data []byte
}

// word returns the word at an address. The result is false if the copy does not contain it.
func (s stackImage) word(addr uint64) (uint64, bool) {
	off := addr - s.base
	if addr < s.base || off > uint64(len(s.data)) || uint64(len(s.data))-off < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.data[off:]), true
}

// registers are the registers at which a goroutine stopped.
type registers struct {
	pc, sp uint64
	lr     uint64 // the return address, if it is in a register
	exact  bool   // pc is the instruction itself, as after a signal or a trap
}

// unwound is the result of walking a stack.
type unwound struct {
	frames   []physical
	complete bool // the walk reached the stack's outermost frame
}

// maxFrames bounds the walk. A Go stack has at most 1 GB by default. Deeper stacks are truncated and marked.
const maxFrames = 1 << 16

// unwind walks a stack from its innermost frame, using the frame sizes in the pclntab.
func (s *symbolizer) unwind(r registers, stack stackImage, frames []physical) unwound {
	frames = frames[:0]
	pc, sp, exact := r.pc, r.sp, r.exact
	lr := r.lr
	for len(frames) < maxFrames {
		info := s.lookup(pc)
		if !info.known || !info.hasDelta {
			return unwound{frames: frames}
		}
		frames = append(frames, physical{pc: pc, exact: exact})
		if info.role == roleTop {
			return unwound{frames: frames, complete: true}
		}
		next, nextSP, ok := s.caller(info, sp, lr, stack)
		if !ok {
			return unwound{frames: frames}
		}
		lr = 0
		pc, sp, exact = next, nextSP, info.role == roleInjected || info.role == roleSigpanic
	}
	return unwound{frames: frames}
}

// caller returns the return address of a frame and the stack pointer of its caller.
func (s *symbolizer) caller(info *pcInfo, sp, lr uint64, stack stackImage) (pc, callerSP uint64, ok bool) {
	if info.mod.bin.Arch() == "arm64" {
		// The callee saves the link register at the bottom of its frame; a function without a frame leaves it.
		if info.delta == 0 {
			return lr, sp, lr != 0
		}
		pc, ok = stack.word(sp)
		return pc, sp + uint64(info.delta), ok
	}
	if info.delta < 0 {
		return lr, sp, lr != 0
	}
	ret := sp + uint64(info.delta)
	pc, ok = stack.word(ret)
	return pc, ret + 8, ok
}

// unwindOutward walks a stack from its outermost frame inwards, for goroutines whose stack pointer is not known because
// they are running. start is the function that the goroutine was started with. A frame is found by its return address,
// which is exactly the frame size of the caller below the caller's own return address. Words below the unknown stack
// pointer may be left over from earlier calls, so a frame is accepted only if stable reports that its word has not
// changed for a while.
func (s *symbolizer) unwindOutward(start uint64, stack stackImage, stable func(addr uint64) bool) []physical {
	goexit, at, ok := s.outermost(stack)
	if !ok {
		return nil
	}
	outward := []physical{{pc: goexit}}
	want := start
	for len(outward) < maxFrames {
		info := s.lookup(want)
		if !info.known {
			break
		}
		pc, below, ok := s.calleeFrame(stack, at, info)
		if !ok || !stable(below) {
			break
		}
		outward = append(outward, physical{pc: pc})
		at = below
		target, direct := info.mod.bin.CallTarget(pc - info.mod.bias)
		if !direct {
			break
		}
		want = target + info.mod.bias
	}
	slices.Reverse(outward)
	return outward
}

// outermost finds the return address into goexit at which a goroutine's stack starts.
func (s *symbolizer) outermost(stack stackImage) (pc, at uint64, ok bool) {
	top := stack.base + uint64(len(stack.data))
	for addr := top - 8; addr >= stack.base && top-addr <= maxTopGap; addr -= 8 {
		if w, ok := stack.word(addr); ok && s.inText(w) && s.lookup(w).fn.Name == "runtime.goexit" {
			return w, addr, true
		}
	}
	return 0, 0, false
}

// calleeFrame finds the return address into the function of callee, whose frame ends at the return address stored at at.
func (s *symbolizer) calleeFrame(stack stackImage, at uint64, callee *pcInfo) (pc, addr uint64, ok bool) {
	size, ok := callee.mod.bin.FrameSize(callee.fn)
	addr = at - uint64(size) - 8
	if !ok || addr < stack.base || addr >= at {
		return 0, 0, false
	}
	pc, ok = stack.word(addr)
	if !ok || !s.inText(pc) {
		return 0, 0, false
	}
	info := s.lookup(pc)
	same := info.known && info.mod == callee.mod && info.fn.Entry == callee.fn.Entry
	return pc, addr, same && info.hasDelta && info.delta == int64(size)
}

// maxTopGap is the maximum distance of the start of a goroutine's stack from its upper end.
const maxTopGap = 512
