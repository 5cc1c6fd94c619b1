package goproc

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
)

// Progress records how long each thread of a process has run, at one moment.
type Progress struct {
	p   *Process
	ran map[int]uint64 // nanoseconds on a processor, by thread
}

// Progress returns how long each thread of the process has run.
func (p *Process) Progress() (*Progress, error) {
	tids, err := p.dir.threads()
	if err != nil {
		return nil, err
	}
	g := &Progress{p: p, ran: make(map[int]uint64, len(tids))}
	for _, tid := range tids {
		if ran, ok := p.ranFor(tid); ok {
			g.ran[tid] = ran
		}
	}
	return g, nil
}

// stoodStill is how long a short sleep takes if this process was stopped, or did not get a processor.
const stoodStill = 20 * time.Millisecond

// Await waits until every thread has run for the duration ran since g was taken, or sleeps in the kernel, so that it
// has completed what it was doing at that moment. It returns the number of threads for which this is not the case after
// the timeout, which happens on busy machines. Time in which this process itself did not run does not count.
func (g *Progress) Await(ctx context.Context, ran, timeout time.Duration) (behind int) {
	deadline := time.Now().Add(timeout)
	for {
		for tid, before := range g.ran {
			now, ok := g.p.ranFor(tid)
			if !ok || now >= before+uint64(ran) || g.p.sleeps(tid) {
				delete(g.ran, tid)
			}
		}
		if len(g.ran) == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			return len(g.ran)
		}
		began := time.Now()
		time.Sleep(time.Millisecond) // the kernel updates its counts every tick
		if took := time.Since(began); took > stoodStill {
			deadline = deadline.Add(took - stoodStill)
		}
	}
}

// ranFor returns how long a thread has run, in nanoseconds. The result is false if the thread has exited or the kernel
// does not report the time.
func (p *Process) ranFor(tid int) (uint64, bool) {
	b, err := p.dir.read(fmt.Sprintf("task/%d/schedstat", tid))
	if err != nil {
		return 0, false
	}
	first, _, _ := bytes.Cut(b, []byte{' '})
	ran, err := strconv.ParseUint(string(first), 10, 64)
	return ran, err == nil
}

// sleeps reports whether a thread is neither running nor runnable.
func (p *Process) sleeps(tid int) bool {
	b, err := p.dir.read(fmt.Sprintf("task/%d/stat", tid))
	if err != nil {
		return true // it has exited
	}
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte{' '})
	return !ok || len(rest) == 0 || rest[0] != 'R'
}
