package goproc

import (
	"errors"
	"fmt"
	"time"
)

// errStarting reports that the runtime is not initialized yet.
var errStarting = errors.New("the runtime is starting")

// verifySample is the number of goroutines that are checked at each end of the list.
const verifySample = 128

// verify checks the layout against the live process: every field that a snapshot uses must have a plausible value in
// the existing goroutines and threads. It retries a few times, because the process is running.
func (p *Process) verify() error {
	var err error
	for attempt := range 5 {
		if attempt > 0 {
			// Transient states, such as a thread that is being created, last longer on a busy machine.
			time.Sleep(time.Millisecond << attempt)
		}
		if err = p.verifyOnce(); err == nil || errors.Is(err, errStarting) || errors.Is(err, ErrExited) {
			return err
		}
	}
	if errors.Is(err, ErrPermission) {
		return err
	}
	return fmt.Errorf("process %d: %w: %s (layout of %s from %s): %w",
		p.pid, ErrLayout, p.main.bin.GoVersion(), p.layout.GoVersion, p.layout.Source, err)
}

func (p *Process) verifyOnce() error {
	addrs, err := p.readAllgs()
	if err != nil {
		return err
	}
	if len(addrs) == 0 {
		return errStarting
	}
	if len(addrs) > 2*verifySample {
		addrs = append(addrs[:verifySample:verifySample], addrs[len(addrs)-verifySample:]...)
	}
	gs, err := p.readGs(addrs)
	if err != nil {
		return err
	}
	tids, err := p.dir.threads()
	if err != nil {
		return err
	}
	ms, err := p.readMs()
	if err != nil {
		return err
	}
	if err := p.verifyMs(ms, tids); err != nil {
		return err
	}
	return p.verifyGs(gs, ms)
}

// verifyMs checks the threads: the kernel must have each started thread, and its system goroutine must refer to it.
func (p *Process) verifyMs(ms map[uint64]rawM, tids map[int]int) error {
	if len(ms) == 0 {
		return errStarting
	}
	started := 0
	for _, m := range ms {
		back := uint64(0)
		if m.g0 != 0 {
			var err error
			if back, err = p.mem.u64(m.g0 + uint64(p.rt.g.m)); err != nil {
				return err
			}
		}
		known := tids[m.tid] != 0
		switch {
		case back == m.addr:
			if known {
				started++
			}
		case !known && back == 0: // allocm has not set it yet (runtime/proc.go)
		case m.g0 == 0:
			return fmt.Errorf("thread at %#x has no system goroutine", m.addr)
		default:
			return fmt.Errorf("system goroutine of the thread at %#x does not point back", m.addr)
		}
	}
	// Threads start and exit at any time, so a few may not match. With a wrong offset none would match.
	if started == 0 {
		return fmt.Errorf("none of %d threads is known to the kernel", len(ms))
	}
	return nil
}

// verifyGs checks the goroutines. The first one of every program runs runtime.main.
func (p *Process) verifyGs(gs []rawG, ms map[uint64]rawM) error {
	seen := map[uint64]uint64{}
	mainSeen, live := false, 0
	for _, g := range gs {
		if p.rt.gone(g) {
			if g.status > 15 {
				return fmt.Errorf("goroutine at %#x has status %d", g.addr, g.status)
			}
			continue
		}
		if other, twice := seen[g.goid]; twice && other != g.addr {
			return fmt.Errorf("two goroutines with ID %d", g.goid)
		}
		seen[g.goid] = g.addr
		live++
		if err := p.verifyG(g, ms); err != nil {
			return fmt.Errorf("goroutine %d at %#x: %w", g.goid, g.addr, err)
		}
		mainSeen = mainSeen || g.goid == 1
	}
	if live == 0 || !mainSeen && p.runsMain {
		return errStarting
	}
	return nil
}

// verifyG checks one goroutine.
func (p *Process) verifyG(g rawG, ms map[uint64]rawM) error {
	s := &p.rt.status
	switch {
	case g.goid > 1<<48:
		return fmt.Errorf("no plausible ID")
	case p.stateOf(g.status) == "":
		return fmt.Errorf("status %d is unknown", g.status)
	case g.stackLo >= g.stackHi || g.stackLo&7 != 0 || g.stackHi-g.stackLo > 1<<40:
		return fmt.Errorf("stack from %#x to %#x", g.stackLo, g.stackHi)
	case g.startPC != 0 && !p.symbols.inText(g.startPC): // goroutines for C threads have no start function
		return fmt.Errorf("started at %#x, which is not Go code", g.startPC)
	case g.goid == 1 && p.symbols.lookup(g.startPC).fn.Name != "runtime.main":
		return fmt.Errorf("the main goroutine was started with %s", p.symbols.lookup(g.startPC).fn.Name)
	case g.status == s.waiting && int(g.waitReason) >= len(p.rt.waitReasons):
		return fmt.Errorf("wait reason %d is unknown", g.waitReason)
	case g.m != 0 && g.status == s.running && ms[g.m].addr == 0:
		return fmt.Errorf("runs on an unknown thread at %#x", g.m)
	}
	if g.status == s.waiting || g.status == s.runnable {
		if !p.symbols.inText(g.pc) {
			return fmt.Errorf("stopped at %#x, which is not Go code", g.pc)
		}
		if g.sp < g.stackLo || g.sp > g.stackHi {
			return fmt.Errorf("stack pointer %#x outside of its stack from %#x to %#x", g.sp, g.stackLo, g.stackHi)
		}
	}
	if g.status == s.waiting && g.goid != 1 && g.gopc != 0 && !p.symbols.inText(g.gopc) {
		return fmt.Errorf("created at %#x, which is not Go code", g.gopc)
	}
	return nil
}
