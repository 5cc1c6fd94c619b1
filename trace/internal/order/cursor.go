package order

import (
	"encoding/binary"

	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Cursor reads the events of one thread in a generation.
type Cursor struct {
	*Record // the event that comes next
	Thread  *Thread

	ahead []Record // events that were decoded, of the current batch
	taken int      // of them

	data []byte // of the batch, and what may be read behind its end
	size int
	pos  int   // behind the last event that was decoded
	last int64 // its time, or that of the batch; 0 if none

	batches []generation.Batch // the current one first
	highest int64              // time of the last event of the thread in the generation; 0 if there is none
}

// A Record is an event that has been decoded.
type Record struct {
	Time  int64 // nanoseconds, not yet made to increase
	Args  [4]uint64
	start int32 // index in the batch's data
	Kind  raw.Type
}

// maxAhead is how many events are decoded at once.
const maxAhead = 32

// readResult says how reading an event ended.
type readResult uint8

const (
	readEvent readResult = iota
	readEnd              // there are no more
	readSkip             // the rest of a batch was left out, read again
	readFault            // a problem was reported that ends all
)

// next goes on to the next event that can be read.
func (md *Model) next(c *Cursor) readResult {
	if c.taken < len(c.ahead) {
		c.Record = &c.ahead[c.taken]
		c.taken++
		return readEvent
	}
	for {
		if r := md.read(c); r != readSkip {
			return r
		}
	}
}

// read decodes events and goes on to the first of them.
func (md *Model) read(c *Cursor) readResult {
	for c.pos == c.size {
		if !md.nextBatch(c) {
			return readEnd
		}
	}
	md.decode(c)
	if len(c.ahead) == 0 {
		c.ahead = c.ahead[:1]
		c.Record = &c.ahead[0]
		c.start, c.Kind = int32(c.pos), raw.Type(c.data[c.pos])
		c.ahead = c.ahead[:0]
		if generation.EventSpecs[c.Kind].Args == 0 {
			return md.noEvent(c)
		}
		return md.cutOff(c)
	}
	c.Record = &c.ahead[0]
	c.taken = 1
	return readEvent
}

// decode decodes the next events of the batch: none if there is something else.
func (md *Model) decode(c *Cursor) {
	ahead := c.ahead[:cap(c.ahead)]
	b, pos, n := c.data, c.pos, 0
	clock := &md.gen.Clock
	for n < len(ahead) && pos < c.size {
		r := &ahead[n]
		kind := b[pos]
		args := generation.EventSpecs[kind].Args
		// All numbers of most events are in the next eight bytes.
		w := binary.LittleEndian.Uint64(b[pos+1:])
		win := generation.WindowOf(w)
		w = win.Together(w)
		at := pos + 1 + int(win.Ends[min(args, generation.WindowNumbers)])
		dt := win.Number(w, 0)
		r.Args[0] = win.Number(w, 1)
		r.Args[1] = win.Number(w, 2)
		if args > 3 {
			r.Args[2] = win.Number(w, 3)
			r.Args[3] = win.Number(w, 4)
		}
		if args == 0 || win.Count < args {
			if dt, at = decodeLong(b, pos, int(args), r); at < 0 {
				break
			}
		}
		if at > c.size {
			break
		}
		r.start, r.Kind = int32(pos), raw.Type(kind)
		pos = at
		if c.last == 0 {
			c.last = clock.Nanos(c.batches[0].Time)
		}
		r.Time = clock.Nanos(dt) + c.last
		if md.checks && r.Time <= c.highest {
			c.Record = r
			md.timeFault(c, dt)
		}
		c.highest = r.Time
		c.last = r.Time
		n++
	}
	c.pos, c.ahead = pos, ahead[:n]
}

// decodeLong decodes an event whose numbers take more than eight bytes. It returns the time since the event before and
// the index behind the event, -1 if there is a number of more than 64 bits or no event.
func decodeLong(b []byte, at, args int, r *Record) (dt uint64, next int) {
	at++
	for i := range args {
		var x uint64
		if x, at = generation.Number(b, at); at < 0 {
			return 0, -1
		}
		if i == 0 {
			dt = x
		} else {
			r.Args[(i-1)&3] = x
		}
	}
	if args == 0 {
		return 0, -1
	}
	return dt, at
}

// timeFault reports a time that does not increase.
func (md *Model) timeFault(c *Cursor, dt uint64) {
	if c.Time > c.last || dt == 0 {
		md.Judge.Add(problem.Warning, problem.TimeOrder, md.at(c), "%s is not later than the previous event of the thread", md.name(c))
		return
	}
	md.Judge.Add(problem.Warning, problem.TimeRange, md.at(c), "%s at an impossible time: %d ticks after the previous event", md.name(c), dt)
}

// nextBatch goes on to the next batch. It returns false if there is none.
func (md *Model) nextBatch(c *Cursor) bool {
	if c.data != nil {
		c.batches = c.batches[1:]
	}
	c.last = 0
	if len(c.batches) == 0 {
		c.data, c.pos, c.size = nil, 0, 0
		return false
	}
	b := &c.batches[0]
	c.data, c.pos, c.size = b.Data, 0, b.Size
	if n := min(maxAhead, b.Size/2+1); n > cap(c.ahead) {
		c.ahead = make([]Record, 0, n) // an event has two bytes at least
	}
	return true
}

// noEvent handles what is no event that may be in a batch.
func (md *Model) noEvent(c *Cursor) readResult {
	t := c.Kind
	what := "which is not an event of a thread"
	if generation.EventSpecs[t].Name == "" {
		what = "which does not exist"
	}
	md.Judge.Add(problem.Error, problem.UnknownEvent, md.at(c), "%s, %s; the last %d bytes of the batch are skipped", generation.EventName(t), what, c.size-int(c.start))
	return md.leaveBatch(c)
}

// cutOff handles an event with a number that cannot be read.
func (md *Model) cutOff(c *Cursor) readResult {
	code := problem.CutOff
	at := int(c.start) + 1
	for n := generation.EventSpecs[c.Kind].Args; n > 0 && at <= c.size; n-- {
		if _, next := generation.Number(c.data, at); next >= 0 && next <= c.size {
			at = next
			continue
		}
		code = generation.NumberFault(c.data, at, c.size)
		break
	}
	what := "is cut off by the end of its batch"
	if code == problem.Overflow {
		what = "has a number that exceeds 64 bits"
	}
	md.Judge.Add(problem.Error, code, md.at(c), "%s %s; the last %d bytes of the batch are skipped", md.name(c), what, c.size-int(c.start))
	return md.leaveBatch(c)
}

// leaveBatch leaves out the rest of a batch that cannot be read. What the model knows is unsure from then on.
func (md *Model) leaveBatch(c *Cursor) readResult {
	md.loseSight()
	c.Thread.unsureP, c.Thread.unsureG = true, true
	c.pos = c.size
	if !md.lenient {
		return readFault
	}
	return readSkip
}

// atBatch returns the place of a cursor's batch.
func (md *Model) atBatch(c *Cursor) problem.Place {
	p := problem.Place{Generation: md.gen.Number, Batch: -1, Event: -1, Thread: c.Thread.id}
	if len(c.batches) > 0 {
		b := &c.batches[0]
		p.Batch, p.Offset = b.Number, b.Offset-int64(b.Header)
	}
	return p
}

// at returns the place of a cursor's event.
func (md *Model) at(c *Cursor) problem.Place {
	p := md.atBatch(c)
	if len(c.batches) > 0 {
		p.Offset = c.batches[0].Offset + int64(c.start)
	}
	p.Counter = c
	return p
}

// EventNumber returns how many events of the batch there are before the cursor's.
func (c *Cursor) EventNumber() int {
	n := 0
	for at := 0; at < int(c.start); n++ {
		args := generation.EventSpecs[c.data[at]].Args
		for at++; args > 0; args-- {
			_, at = generation.Number(c.data, at)
		}
	}
	return n
}

// name returns the name of a cursor's event.
func (md *Model) name(c *Cursor) string { return generation.EventName(c.Kind) }
