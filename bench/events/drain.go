package main

import (
	"fmt"
	"time"
)

// drain prints how many events one core takes from the buffer through the decoder and the state machine.
func (b *bench) drain() error {
	fmt.Println("The observer has one processor. The last column is events divided by their processor time. Live, the observer is idle most")
	fmt.Println("of the time. A full buffer contains events that were written before.")
	fmt.Println()
	header("target", "way", "events", "lost", "processors used", "events/s a core")
	if err := b.drainLive(pingpong); err != nil {
		return err
	}
	for _, s := range busy {
		for _, d := range engineDepths {
			if err := b.drainBuffer(s, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// drainLive measures a consumer while its target makes as many events as it can.
func (b *bench) drainLive(s scene) error {
	t, err := b.start(s)
	if err != nil {
		return err
	}
	defer t.Kill()
	results := make([][]seen, len(engineDepths))
	for range b.rounds {
		for i, d := range engineDepths {
			r, err := b.watch(s, t, d.order)
			if err != nil {
				return err
			}
			results[i] = append(results[i], r)
		}
	}
	for i, d := range engineDepths {
		r := results[i]
		row(s.name, "live, "+d.name, number(median(r, seen.rate))+" a second", percent(median(r, seen.lostPart)),
			fmt.Sprintf("%.3f", median(r, seen.processors)),
			number(median(r, func(s seen) float64 { return float64(s.yielded) / s.cpu.Seconds() })))
	}
	return nil
}

// A buffer that is filled before it is drained, and how long it may take to fill.
const (
	fullBuffer = 1 << 30
	fullEvents = 4_000_000
	fullAfter  = 2 * time.Minute
)

// drainBuffer measures how fast a full buffer is emptied. The target has ended by then.
func (b *bench) drainBuffer(s scene, d depth) error {
	var results []drained
	var lost uint64
	for range b.rounds {
		r, l, err := b.fillAndDrain(s, d.order)
		if err != nil {
			return err
		}
		lost += l
		results = append(results, r)
	}
	n := median(results, func(d drained) float64 { return float64(d.Events) })
	row(s.name, "a full buffer, "+d.name, fmt.Sprintf("%.1f million", n/1e6), lost, "1",
		number(median(results, func(d drained) float64 { return float64(d.Events) / d.CPU.Seconds() })))
	return nil
}

// fillAndDrain measures once. lost is how many events did not fit.
func (b *bench) fillAndDrain(s scene, o order) (d drained, lost uint64, err error) {
	o.Later, o.BufferBytes = true, fullBuffer
	t, err := b.start(s)
	if err != nil {
		return d, 0, err
	}
	w, err := b.startObserver(t, observeCPU, o)
	if err == nil {
		lost, err = fill(s, t, w)
	}
	t.Kill()
	if err != nil {
		return d, 0, err
	}
	if err := w.p.AskJSON("drain", &d); err != nil {
		return d, 0, err
	}
	return d, lost, w.close()
}

// fill waits until the buffer holds enough events.
func fill(s scene, t *target, w *loupeWatcher) (lost uint64, err error) {
	for begin := time.Now(); time.Since(begin) < fullAfter; {
		if err := s.pass(t, time.Second); err != nil {
			return 0, err
		}
		var c count
		if err := w.p.AskJSON("count", &c); err != nil {
			return 0, err
		}
		if c.Produced >= fullEvents {
			return c.Lost, nil
		}
	}
	return 0, fmt.Errorf("%s: fewer than %d events in %v", s.name, fullEvents, fullAfter)
}
