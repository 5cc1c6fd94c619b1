package goproc

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
)

// tallyKey is what the goroutines of a tally have in common.
type tallyKey struct {
	status        uint32
	reason        uint8
	gopc, startPC uint64
}

// Tallies counts the live goroutines without their stacks, which takes much less time than a snapshot. Those of the runtime itself
// have Origin.System set. Goroutines are read one after the other while the process runs.
func (p *Process) Tallies(ctx context.Context) ([]event.Tally, error) {
	tallies, keys, err := p.tally()
	if err != nil {
		return nil, p.UnlessReplaced(err)
	}
	if err := p.alive(ctx); err != nil {
		return nil, err
	}
	for i := range tallies {
		tallies[i].Origin = p.Origin(keys[i].gopc, keys[i].startPC)
	}
	return tallies, nil
}

// tally groups the goroutines. The keys are those of the tallies.
func (p *Process) tally() (tallies []event.Tally, keys []tallyKey, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	addrs, err := p.readAllgs()
	if err != nil {
		return nil, nil, err
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return nil, nil, err
	}
	now := ts.Nano() + int64(p.dir.monotonicOffset())
	status := &p.rt.status
	index := map[tallyKey]int{}
	err = p.eachG(addrs, func(_ int, g rawG) {
		if p.rt.gone(g) {
			return
		}
		key := tallyKey{status: g.status, gopc: g.gopc, startPC: g.startPC}
		if g.goid == 1 {
			key.gopc = 0 // the main goroutine: no go statement of the program
		}
		blocked := g.status == status.waiting || g.status == status.leaked
		if blocked {
			key.reason = g.waitReason
		}
		i, known := index[key]
		if !known {
			i = len(tallies)
			index[key] = i
			t := event.Tally{State: p.stateOf(g.status)}
			if blocked {
				t.Reason = p.waitReason(g.waitReason)
			}
			tallies, keys = append(tallies, t), append(keys, key)
		}
		t := &tallies[i]
		t.Members = append(t.Members, event.Member{ID: g.goid, Stops: g.trackingSeq})
		if (blocked || g.status == status.syscall) && g.waitSince > 0 && g.waitSince <= now {
			t.Oldest = max(t.Oldest, time.Duration(now-g.waitSince))
		}
	})
	return tallies, keys, err
}
