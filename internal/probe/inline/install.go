package inline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// spot is a place in the target where a probe is to be called.
type spot struct {
	probe probe.Probe
	site  probe.Site
	entry uint64 // of the function, in the process
	d     *codepatch.Displacement
}

// name returns the place as function+offset.
func (s *spot) name() string {
	if s.d.Start == s.entry {
		return s.site.Func
	}
	return fmt.Sprintf("%s+%#x", s.site.Func, s.d.Start-s.entry)
}

// place returns the parameters of the spot's body at an address.
func (s *spot) place(program *Program, addr uint64) Place {
	return Place{
		Set: s.probe.Set, Probe: s.probe.ID, Fence: s.probe.Fence, Untimed: s.probe.Untimed, G: program.sets[s.probe.Set].registersG[s.probe.ID], Addr: addr,
		SPAdjust: int32(s.d.SPMoved - s.site.At.SPMoved), Framed: s.site.At.Framed,
	}
}

// An installation is what the engine has put into a process.
type installation struct {
	pid          int
	trial        *ptrace.Trial
	patience     time.Duration // with threads in the way; 0: the usual
	signalStacks func() ([]ptrace.Interval, error)
	ended        func() error

	shared   *ptrace.Shared // nil when the installation of another engine is removed
	sharedAt uint64         // address of the shared memory in the process
	sharedBy int            // its size
	region   uint64         // address of the region in the process
	base     uint64         // address of the stubs and the program
	lends    bool           // probes lend memory to the process
	loans    uint64         // address of that memory; 0: none
	lent     bool           // remove has left it in the process, because some of it is lent
	code     int            // executable bytes of them
	size     int            // of all
	stubs    int            // bytes of the stubs; the program follows
	first    int            // offset of the first stub in these bytes
	fixed    uint64         // required base; 0: any address in reach
	edits    []ptrace.Edit
	names    []string      // the place of each edit, as function+offset
	patched  bool          // the edits have been written
	standing time.Duration // longest time that all threads were stopped for patch or remove
}

const (
	// patience bounds the wait for threads to leave a place, and for a process to stop.
	patience = 5 * time.Second
	// pauseMin and pauseMax bound the pauses between two tries.
	pauseMin, pauseMax = 500 * time.Microsecond, 20 * time.Millisecond
	// patienceStill is patience with a process that could not be stopped the last time.
	patienceStill = 200 * time.Millisecond
)

// sharedReach is the largest distance of the shared memory from the program. Only the smallest address space bounds it.
const sharedReach = 1 << 36

// enter maps the memory and writes everything that the patches require. One suitable thread makes the system calls
// while the others run.
func (in *installation) enter(program *Program, region func(mem []byte, at uint64) error, spots []spot) error {
	if err := checkMemory(in.pid, cgroupRoot); err != nil {
		return err
	}
	lo, hi, err := codepatch.Reach(displacements(spots)...)
	if err != nil {
		return err
	}
	return in.stopped(ptrace.Options{One: true, Trial: in.trial}, func(s *ptrace.Stopped) error {
		if in.sharedAt == 0 {
			if err := in.mapFirst(s, program, ptrace.Window{Lo: lo, Hi: hi}); err != nil {
				return err
			}
		}
		aligned := alignUp(int(in.sharedAt)+notesSize, Alignment)
		in.region = uint64(aligned)
		if err := region(in.shared.Mem[in.region-in.sharedAt:], in.region); err != nil {
			return err
		}
		return in.write(s, program, spots)
	})
}

// mapFirst maps the memory in a process that has no memory of another installation.
func (in *installation) mapFirst(s *ptrace.Stopped, program *Program, window ptrace.Window) error {
	maps, err := s.Maps()
	if err != nil {
		return err
	}
	if at, ok := ptrace.Occupied(maps); ok {
		return fmt.Errorf("process %d: %w: another Loupe observes it with this engine, or left data at %#x: see loupe doctor %d",
			in.pid, ptrace.ErrUnsupported, at, in.pid)
	}
	return in.mapMemory(s, program, window)
}

func displacements(spots []spot) []*codepatch.Displacement {
	list := make([]*codepatch.Displacement, len(spots))
	for i := range spots {
		list[i] = spots[i].d
	}
	return list
}

// mapMemory maps the memory in the process: first the shared memory, with notes of all later changes. An engine that is
// killed at any moment leaves nothing in the process that the notes do not name.
func (in *installation) mapMemory(s *ptrace.Stopped, program *Program, window ptrace.Window) error {
	base, err := in.place(s, window)
	if err != nil {
		return err
	}
	size := notesSize + Alignment + program.geometry.Size()
	near := ptrace.Window{Lo: base - min(base, sharedReach), Hi: base + sharedReach}
	at, err := s.Gap(near, size, ptrace.Interval{Lo: base, Hi: base + uint64(in.size)})
	if err != nil {
		return err
	}
	shared, err := s.MapShared(at, size, func(mem []byte) error {
		return in.note(mem, Notes{Base: base, Shared: at, Length: uint64(len(mem))})
	})
	if err != nil {
		return err
	}
	if err := s.MapProgram(base, in.code, in.size-in.code); err != nil {
		if undoErr := s.Unmap(at, len(shared.Mem)); undoErr != nil {
			return fmt.Errorf("%w; and %w", err, undoErr)
		}
		if undoErr := shared.Close(); undoErr != nil {
			return fmt.Errorf("%w; and %w", err, undoErr)
		}
		return err
	}
	in.base, in.shared, in.sharedAt, in.sharedBy = base, shared, at, len(shared.Mem)
	return in.mapLoans(s, program)
}

// errFixed says that the only possible address of a stub is not free.
var errFixed = errors.New("no suitable address for its stub is free")

// place returns the address for code and data.
func (in *installation) place(s *ptrace.Stopped, window ptrace.Window) (uint64, error) {
	if in.fixed == 0 {
		return s.Gap(window, in.size)
	}
	page := uint64(os.Getpagesize()) // Gap leaves one page free on both sides
	exact := ptrace.Window{Lo: in.fixed - page, Hi: in.fixed + uint64(in.size) + page}
	if exact.Lo < window.Lo || exact.Hi > window.Hi {
		return 0, errFixed
	}
	base, err := s.Gap(exact, in.size)
	if err != nil || base != in.fixed {
		return 0, errFixed
	}
	return base, nil
}

// write fills the memory and computes the edits.
func (in *installation) write(s *ptrace.Stopped, program *Program, spots []spot) error {
	at := in.base + uint64(in.stubs)
	if err := s.Write(at, program.Code()); err != nil {
		return err
	}
	if err := s.Write(at+uint64(program.PrivateAt()), program.Private(at, in.region)); err != nil {
		return err
	}
	stubs, err := in.makeStubs(program, spots)
	if err != nil {
		return err
	}
	if err := s.Write(in.base, stubs); err != nil {
		return err
	}
	return in.note(in.shared.Mem, Notes{Base: in.base, Shared: in.sharedAt, Length: uint64(in.sharedBy), Edits: in.edits})
}

// makeStubs generates the code of the stubs, and the edits that jump to them.
func (in *installation) makeStubs(program *Program, spots []spot) ([]byte, error) {
	stubs := make([]byte, in.first, in.stubs)
	in.edits, in.names = in.edits[:0], in.names[:0]
	for i := range spots {
		sp, at := &spots[i], in.base+uint64(len(stubs))
		var bodyErr error
		stub, err := sp.d.Stub(at, func(addr uint64) []byte {
			code, err := program.Body(in.base+uint64(in.stubs), sp.place(program, addr))
			bodyErr = errors.Join(bodyErr, err)
			return code
		})
		if err = errors.Join(bodyErr, err); err != nil {
			return nil, fmt.Errorf("%s: %w", sp.site.Func, err)
		}
		jump, err := sp.d.Jump(at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sp.site.Func, err)
		}
		in.edits = append(in.edits, ptrace.Edit{Addr: sp.d.Start, Old: sp.d.Old, New: jump})
		in.names = append(in.names, sp.name())
		stubs = append(stubs, stub...)
		stubs = append(stubs, make([]byte, alignUp(len(stubs), stubAlign)-len(stubs))...)
	}
	if len(stubs) > in.stubs {
		return nil, fmt.Errorf("stubs take %d bytes, want at most %d", len(stubs), in.stubs)
	}
	return stubs, nil
}

const stubAlign = 16

// measure computes the required size of the memory, and its address if a stub (the first one) has a fixed address.
func (in *installation) measure(program *Program, spots []spot) error {
	page := int(program.page)
	in.stubs, in.first, in.fixed = 0, 0, 0
	if at := spots[0].d.Fixed; at != 0 {
		in.first = int(at % uint64(page))
		in.stubs, in.fixed = in.first, at-uint64(in.first)
	}
	for i := range spots {
		body, err := program.Body(0, spots[i].place(program, 0))
		if err != nil {
			return fmt.Errorf("%s: %w", spots[i].site.Func, err)
		}
		in.stubs = alignUp(in.stubs+spots[i].d.StubLen(len(body)), stubAlign)
	}
	in.stubs = alignUp(in.stubs, page)
	in.code = in.stubs + program.PrivateAt()
	in.size = alignUp(in.stubs+program.Size(), page)
	return nil
}

// patch writes the edits, so that the process executes the stubs.
func (in *installation) patch() error {
	return in.whenFree(func(s *ptrace.Stopped) error {
		// A process that has executed the same program again has the same code, but no stubs.
		if here, err := in.here(s); err != nil {
			return err
		} else if !here {
			return fmt.Errorf("process %d: the memory that Loupe mapped in it is gone: %w", in.pid, ptrace.ErrExited)
		}
		// It may have done so before the memory was mapped: the probes would use addresses in the memory of the old program.
		if err := in.ended(); err != nil {
			return err
		}
		if err := in.knowHandlers(s); err != nil {
			return err
		}
		if err := in.checkForeign(s); err != nil {
			return err
		}
		err := s.Patch(in.edits, false)
		in.patched = err == nil
		return err
	})
}

// knowHandlers passes on the stacks on which threads handle signals.
func (in *installation) knowHandlers(s *ptrace.Stopped) error {
	stacks, err := in.signalStacks()
	if err != nil {
		return err
	}
	s.HandlersRunIn(stacks)
	return nil
}

// remove puts the process back as it was. It does nothing where the process has ended or runs another program now.
func (in *installation) remove() error {
	if in.sharedAt == 0 {
		return nil
	}
	restored := !in.patched
	err := in.whenFree(func(s *ptrace.Stopped) error {
		if here, err := in.here(s); err != nil || !here {
			return err
		}
		if err := in.knowHandlers(s); err != nil {
			return err
		}
		if !restored {
			back, err := in.restoring(s)
			if err == nil {
				err = s.Patch(back, false)
			}
			if err != nil {
				return fmt.Errorf("process %d: %w", in.pid, err)
			}
			restored = true
		}
		return in.nobodyInside(s)
	})
	if err == nil {
		err = in.unmap()
	}
	switch {
	case errors.Is(err, ptrace.ErrNoProcess), errors.Is(err, ptrace.ErrExited):
		return nil
	case errors.Is(err, ptrace.ErrBusy) && restored:
		return fmt.Errorf("process %d: its code is restored, but %d KiB of memory remain mapped: %w", in.pid, in.size>>10, err)
	}
	return err
}

// here reports whether the memory is still in the process: it is not in another program, nor after somebody has cleaned up.
func (in *installation) here(s *ptrace.Stopped) (bool, error) {
	maps, err := s.Maps()
	if err != nil {
		return false, err
	}
	at, ok := ptrace.Occupied(maps)
	return ok && at == in.sharedAt, nil
}

// hasProgram reports whether the code and its data are in the process: a killed engine may have noted and not mapped them,
// or have removed them already.
func (in *installation) hasProgram(s *ptrace.Stopped) (bool, error) {
	if in.base == 0 {
		return false, nil
	}
	return s.HasProgram(in.base, in.code, in.size)
}

// nobodyInside returns an error when a thread is in the memory, or may come back there. When nothing leads there any more
// and nobody is there, that stays so.
func (in *installation) nobodyInside(s *ptrace.Stopped) error {
	if there, err := in.hasProgram(s); err != nil || !there {
		return err
	}
	rest, err := s.Resting([]ptrace.Interval{{Lo: in.base, Hi: in.base + uint64(in.code)}}, false)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: thread %d is in the code to be removed, at %#x", ptrace.ErrBusy, rest[0].TID, rest[0].PC)
	}
	return nil
}

// unmap removes the memory, when nobody can be inside any more. One thread does that while the others run.
func (in *installation) unmap() error {
	return in.stopped(ptrace.Options{One: true, Trial: in.trial}, func(s *ptrace.Stopped) error {
		if here, err := in.here(s); err != nil || !here {
			return err
		}
		if there, err := in.hasProgram(s); err != nil {
			return err
		} else if there {
			if err := s.Unmap(in.base, in.size); err != nil {
				return err
			}
		}
		in.base = 0
		if err := in.unmapLoans(s); err != nil {
			return err
		}
		if err := s.Unmap(in.sharedAt, in.sharedBy); err != nil {
			return err
		}
		in.sharedAt = 0
		return nil
	})
}

// whenFree stops all threads of the process and calls f, repeatedly while a thread is in the way.
func (in *installation) whenFree(f func(*ptrace.Stopped) error) error {
	_, _ = in.signalStacks() // stacks that are known are found faster
	in.standing = 0
	return in.stopped(ptrace.Options{Trial: in.trial}, f)
}

// stopped stops the process and calls f, repeatedly while f reports that a thread is in the way.
func (in *installation) stopped(opt ptrace.Options, f func(*ptrace.Stopped) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(in.patience, patience))
	defer cancel()
	var busy error // of the last try, if a thread was in the way
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		var stopped *ptrace.Stopped
		err := ptrace.Run(ctx, in.pid, opt, func(s *ptrace.Stopped) error {
			stopped = s
			return f(s)
		})
		if stopped != nil && !opt.One {
			in.standing = max(in.standing, stopped.Stood())
		}
		if busy != nil && errors.Is(err, context.DeadlineExceeded) {
			return busy // the time was over before all threads had stopped once more
		}
		if !errors.Is(err, ptrace.ErrBusy) || ctx.Err() != nil {
			return err
		}
		busy = err
		time.Sleep(pause)
	}
}
