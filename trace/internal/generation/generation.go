package generation

import (
	"strings"

	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Generation is what a trace says of one generation, in the order in which it says it. Only strings, stacks,
// samples and clocks are taken out of their batches.
type Generation struct {
	Number  uint64
	offset  int64 // of the first batch
	MinTime uint64
	Clock   Clock

	Streams []*Stream // of the threads, in the order in which they appear
	Samples []Sample  // of the CPU profiler, by time

	Strings Strings
	Stacks  Stacks
	unknown []unknown // batches of unknown experiments

	Batches int // of any kind
	chunks  [][]byte
	// Unsure is set when parts are missing because they were unreadable.
	Unsure bool
	// Empty is set for what is no generation, but has problems.
	Empty bool
	// Problems are those of the generation's framing and tables; nil if the first Error ends all.
	Problems *problem.List
}

// None is the ID that stands for no thread, P or goroutine.
const None = ^uint64(0)

// A Stream is the batches of one thread.
type Stream struct {
	Thread  uint64
	Batches []Batch
}

// A Batch is one batch of events.
type Batch struct {
	Data   []byte // of Size bytes and tail more
	Size   int
	Time   uint64 // in ticks
	Offset int64  // of Data in the trace
	Number int    // in the trace
	Header uint8  // bytes of the header, before Data
}

// A Sample is a sample of the CPU profiler.
type Sample struct {
	Time           int64 // nanoseconds
	M, P, G, Stack uint64
	offset         int64
	batch, index   int
}

// A Clock says how the ticks of a generation relate to time.
type Clock struct {
	known       bool
	perTick     float64 // nanoseconds
	HasSnapshot bool
	snapshot    uint64 // ticks
	sec, nsec   uint64 // wall time at the snapshot
	// whole is perTick if that is a small whole number, so that small times can be calculated exactly without floats.
	whole int64
}

// wholeTicks bounds the ticks that are multiplied as integers: with whole numbers below 1024 the product is below
// 2^50, and a float has no other value.
const wholeTicks = 1 << 40

// setFrequency takes the number of ticks in a second.
func (c *Clock) setFrequency(perSecond uint64) {
	c.known = true
	c.perTick = 1.0 / (float64(perSecond) / 1e9)
	if c.perTick >= 1 && c.perTick < 1024 && c.perTick == float64(int64(c.perTick)) {
		c.whole = int64(c.perTick)
	}
}

// Nanos returns the nanoseconds of a number of ticks, rounded as the toolchain's reader does.
func (c *Clock) Nanos(ticks uint64) int64 {
	if c.whole != 0 && ticks < wholeTicks {
		return int64(ticks) * c.whole
	}
	return c.floatNanos(ticks)
}

func (c *Clock) floatNanos(ticks uint64) int64 { return int64(float64(ticks) * c.perTick) }

// Wall returns the difference between wall time, in nanoseconds since the epoch, and the trace's time.
func (c *Clock) Wall() int64 {
	return int64(c.sec)*1e9 + int64(c.nsec) - c.Nanos(c.snapshot)
}

// stream returns the stream of a thread.
func (g *Generation) stream(thread uint64, index map[uint64]*Stream) *Stream {
	s := index[thread]
	if s == nil {
		s = &Stream{Thread: thread}
		index[thread] = s
		g.Streams = append(g.Streams, s)
	}
	return s
}

// memory returns about how many bytes a generation takes.
func (g *Generation) memory() int64 {
	s, t := &g.Strings, &g.Stacks
	return int64(len(s.List))*memory.String + int64(len(t.list))*memory.Stack + int64(len(t.frames))*memory.Frame +
		int64(t.byPC.Len())*memory.PC + int64(len(g.Samples))*memory.Sample + int64(g.Batches)*memory.Batch +
		int64(len(g.Streams))*memory.Stream
}

// An EventSpec is what the order of events depends on in a type of event.
type EventSpec struct {
	Name string
	// Args is the number of arguments with the time; 0 for what is no event with a time.
	Args uint8
	// Stack and Text are the indexes, not counting the time, of the first arguments that are a stack and a string, and one;
	// 0 if there are none. Stack2 and Text2 are those of the second ones.
	Stack, Stack2, Text, Text2 uint8
}

// EventSpecs are the events with a time of all versions from Go 1.22 on.
var EventSpecs = makeSpecs()

func makeSpecs() (all [256]EventSpec) {
	for t, s := range raw.Go126.Specs() {
		all[t].Name = s.Name
		if !s.Timed || raw.Type(t) == raw.EvClockSnapshot {
			continue
		}
		all[t].Args = uint8(len(s.Args))
		for i, arg := range s.Args[1:] {
			switch {
			case strings.HasSuffix(arg, "_string"):
				all[t].Text, all[t].Text2 = second(all[t].Text, i+1)
			case arg == "stack" || arg == "new_stack":
				all[t].Stack, all[t].Stack2 = second(all[t].Stack, i+1)
			}
		}
	}
	return all
}

// second returns the first and the second index after another one was found.
func second(first uint8, found int) (uint8, uint8) {
	if first == 0 {
		return uint8(found), 0
	}
	return first, uint8(found)
}
