package loupe

import (
	"fmt"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
)

// HitCost is the processor time that probes take from the target. It is an estimate, and a lower bound: it includes neither the
// recording of stacks, nor the time by which the program itself becomes slower because its data is no longer in the caches. A channel
// ping-pong with stacks loses 1.2 to 1.6 times as much with [EngineUprobe] (go run ./bench/events cost). If a warning of the session
// (event.WarnCost) says that a function is probed at an instruction that the kernel does not emulate, hits there take ten times as long.
type HitCost struct {
	Hit   time.Duration // a hit of a probe that reports no event, such as one of a goroutine that is not sampled
	Event time.Duration // what an event takes in addition
}

// Of returns an estimate of the time that the target has spent in probes.
func (c HitCost) Of(stats *event.Stats) time.Duration {
	var events uint64
	for _, n := range stats.Kinds {
		events += n.Produced
	}
	return time.Duration(stats.Hits)*c.Hit + time.Duration(events)*c.Event
}

// HitCost returns what a hit of a probe costs with the engine of the session. With [EngineUprobe] it is measured: this process runs into a
// probe of its own 4,000 times, which takes about 50 ms with attaching and detaching. It is the same for all sessions on a machine. Calls
// must not overlap. With [EngineInline] it is a constant. With [EngineAgent] it is unknown, and the error wraps [ErrUnsupported].
func (s *Session) HitCost() (HitCost, error) {
	if s.probes == nil {
		return HitCost{}, fmt.Errorf("%w: what events cost is unknown with the agent in the program", ErrUnsupported)
	}
	if _, ok := s.probes.Engine().(*inline.Engine); ok {
		return HitCost(inline.HitCost()), nil
	}
	c, err := uprobe.MeasureHit(uprobe.Options{Log: s.opt.Log, SingleUprobes: s.opt.singleUprobes})
	return HitCost(c), err
}
