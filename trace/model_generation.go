package trace

import (
	"strings"

	"github.com/loupe-go/loupe/trace/raw"
)

// A modelGeneration is what a trace says of one generation, in the order in which it says it. Only strings, stacks,
// samples and clocks are taken out of their batches.
type modelGeneration struct {
	number  uint64
	offset  int64 // of the first batch
	minTime uint64
	clock   modelClock

	streams []*modelStream // of the threads, in the order in which they appear
	samples []modelSample  // of the CPU profiler, by time

	strings modelStrings
	stacks  modelStacks
	unknown []modelUnknown // batches of unknown experiments

	batches int // of any kind
	chunks  [][]byte
	// unsure is set when parts are missing because they were unreadable.
	unsure bool
	// empty is set for what is no generation, but has problems.
	empty bool
	// problems are those of the generation's framing and tables; nil if the first Error ends all.
	problems *validList
}

// A modelStream is the batches of one thread.
type modelStream struct {
	thread  uint64
	batches []modelBatch
}

// A modelBatch is one batch of events.
type modelBatch struct {
	data   []byte // of size bytes and modelTail more
	size   int
	time   uint64 // in ticks
	offset int64  // of data in the trace
	number int    // in the trace
	header uint8  // bytes of the header, before data
}

// A modelSample is a sample of the CPU profiler.
type modelSample struct {
	time           int64 // nanoseconds
	m, p, g, stack uint64
	offset         int64
	batch, index   int
}

// A modelClock says how the ticks of a generation relate to time.
type modelClock struct {
	known       bool
	perTick     float64 // nanoseconds
	hasSnapshot bool
	snapshot    uint64 // ticks
	sec, nsec   uint64 // wall time at the snapshot
	// whole is perTick if that is a small whole number, so that small times can be calculated exactly without floats.
	whole int64
}

// modelWholeTicks bounds the ticks that are multiplied as integers: with whole numbers below 1024 the product is below
// 2^50, and a float has no other value.
const modelWholeTicks = 1 << 40

// setFrequency takes the number of ticks in a second.
func (c *modelClock) setFrequency(perSecond uint64) {
	c.known = true
	c.perTick = 1.0 / (float64(perSecond) / 1e9)
	if c.perTick >= 1 && c.perTick < 1024 && c.perTick == float64(int64(c.perTick)) {
		c.whole = int64(c.perTick)
	}
}

// nanos returns the nanoseconds of a number of ticks, rounded as the toolchain's reader does.
func (c *modelClock) nanos(ticks uint64) int64 {
	if c.whole != 0 && ticks < modelWholeTicks {
		return int64(ticks) * c.whole
	}
	return c.floatNanos(ticks)
}

func (c *modelClock) floatNanos(ticks uint64) int64 { return int64(float64(ticks) * c.perTick) }

// wall returns the difference between wall time, in nanoseconds since the epoch, and the trace's time.
func (c *modelClock) wall() int64 {
	return int64(c.sec)*1e9 + int64(c.nsec) - c.nanos(c.snapshot)
}

// stream returns the stream of a thread.
func (g *modelGeneration) stream(thread uint64, index map[uint64]*modelStream) *modelStream {
	s := index[thread]
	if s == nil {
		s = &modelStream{thread: thread}
		index[thread] = s
		g.streams = append(g.streams, s)
	}
	return s
}

// A modelSpec is what the model has to know of a type of event.
type modelSpec struct {
	name string
	// args is the number of arguments with the time; 0 for what is no event with a time.
	args uint8
	// stack and text are the indexes, not counting the time, of the first arguments that are a stack and a string, and one;
	// 0 if there are none. stack2 and text2 are those of the second ones.
	stack, stack2, text, text2 uint8
}

// modelSpecs are the events with a time of all versions from Go 1.22 on.
var modelSpecs = modelMakeSpecs()

func modelMakeSpecs() (all [256]modelSpec) {
	for t, s := range raw.Go126.Specs() {
		all[t].name = s.Name
		if !s.Timed || raw.Type(t) == raw.EvClockSnapshot {
			continue
		}
		all[t].args = uint8(len(s.Args))
		for i, arg := range s.Args[1:] {
			switch {
			case strings.HasSuffix(arg, "_string"):
				all[t].text, all[t].text2 = modelSecond(all[t].text, i+1)
			case arg == "stack" || arg == "new_stack":
				all[t].stack, all[t].stack2 = modelSecond(all[t].stack, i+1)
			}
		}
	}
	return all
}

// modelSecond returns the first and the second index after another one was found.
func modelSecond(first uint8, found int) (uint8, uint8) {
	if first == 0 {
		return uint8(found), 0
	}
	return first, uint8(found)
}
