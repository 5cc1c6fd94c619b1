package trace

import (
	"encoding/binary"

	"github.com/loupe-go/loupe/trace/raw"
)

// A modelCursor reads the events of one thread in a generation.
type modelCursor struct {
	*modelRecord // the event that comes next
	thread       *modelThread

	ahead []modelRecord // events that were decoded, of the current batch
	taken int           // of them

	data []byte // of the batch, and modelTail more
	size int
	pos  int   // behind the last event that was decoded
	last int64 // its time, or that of the batch; 0 if none

	batches []modelBatch // the current one first
	highest int64        // time of the last event of the thread in the generation; 0 if there is none
}

// A modelRecord is an event.
type modelRecord struct {
	time  int64 // nanoseconds, not yet made to increase
	args  [4]uint64
	start int32 // index in the batch's data
	kind  raw.Type
}

// modelAhead is how many events are decoded at once.
const modelAhead = 32

// modelRead says how reading an event ended.
type modelRead uint8

const (
	modelReadEvent modelRead = iota
	modelReadEnd             // there are no more
	modelReadSkip            // the rest of a batch was left out, read again
	modelReadFault           // a problem was reported that ends all
)

// next goes on to the next event that can be read.
func (md *model) next(c *modelCursor) modelRead {
	if c.taken < len(c.ahead) {
		c.modelRecord = &c.ahead[c.taken]
		c.taken++
		return modelReadEvent
	}
	for {
		if r := md.read(c); r != modelReadSkip {
			return r
		}
	}
}

// read decodes events and goes on to the first of them.
func (md *model) read(c *modelCursor) modelRead {
	for c.pos == c.size {
		if !md.nextBatch(c) {
			return modelReadEnd
		}
	}
	md.decode(c)
	if len(c.ahead) == 0 {
		c.ahead = c.ahead[:1]
		c.modelRecord = &c.ahead[0]
		c.start, c.kind = int32(c.pos), raw.Type(c.data[c.pos])
		c.ahead = c.ahead[:0]
		if modelSpecs[c.kind].args == 0 {
			return md.noEvent(c)
		}
		return md.cutOff(c)
	}
	c.modelRecord = &c.ahead[0]
	c.taken = 1
	return modelReadEvent
}

// decode decodes the next events of the batch: none if there is something else.
func (md *model) decode(c *modelCursor) {
	ahead := c.ahead[:cap(c.ahead)]
	b, pos, n := c.data, c.pos, 0
	clock := &md.gen.clock
	for n < len(ahead) && pos < c.size {
		r := &ahead[n]
		kind := b[pos]
		args := modelSpecs[kind].args
		// All numbers of most events are in the next eight bytes.
		w := binary.LittleEndian.Uint64(b[pos+1:])
		win := modelWindowOf(w)
		w = win.together(w)
		at := pos + 1 + int(win.ends[min(args, modelWindowNumbers)])
		dt := win.number(w, 0)
		r.args[0] = win.number(w, 1)
		r.args[1] = win.number(w, 2)
		if args > 3 {
			r.args[2] = win.number(w, 3)
			r.args[3] = win.number(w, 4)
		}
		if args == 0 || win.count < args {
			if dt, at = modelDecodeLong(b, pos, int(args), r); at < 0 {
				break
			}
		}
		if at > c.size {
			break
		}
		r.start, r.kind = int32(pos), raw.Type(kind)
		pos = at
		if c.last == 0 {
			c.last = clock.nanos(c.batches[0].time)
		}
		r.time = clock.nanos(dt) + c.last
		if md.checks && r.time <= c.highest {
			c.modelRecord = r
			md.timeFault(c, dt)
		}
		c.highest = r.time
		c.last = r.time
		n++
	}
	c.pos, c.ahead = pos, ahead[:n]
}

// modelDecodeLong decodes an event whose numbers take more than eight bytes. It returns the time since the event before and
// the index behind the event, -1 if there is a number of more than 64 bits or no event.
func modelDecodeLong(b []byte, at, args int, r *modelRecord) (dt uint64, next int) {
	at++
	for i := range args {
		var x uint64
		if x, at = modelNumber(b, at); at < 0 {
			return 0, -1
		}
		if i == 0 {
			dt = x
		} else {
			r.args[(i-1)&3] = x
		}
	}
	if args == 0 {
		return 0, -1
	}
	return dt, at
}

// timeFault reports a time that does not increase.
func (md *model) timeFault(c *modelCursor, dt uint64) {
	if c.time > c.last || dt == 0 {
		md.judge.add(Warning, CodeTimeOrder, md.at(c), "%s not later than the event before on the thread", md.name(c))
		return
	}
	md.judge.add(Warning, CodeTimeRange, md.at(c), "%s at a time that cannot be: %d ticks after the event before", md.name(c), dt)
}

// nextBatch goes on to the next batch. It returns false if there is none.
func (md *model) nextBatch(c *modelCursor) bool {
	if c.data != nil {
		c.batches = c.batches[1:]
	}
	c.last = 0
	if len(c.batches) == 0 {
		c.data, c.pos, c.size = nil, 0, 0
		return false
	}
	b := &c.batches[0]
	c.data, c.pos, c.size = b.data, 0, b.size
	if n := min(modelAhead, b.size/2+1); n > cap(c.ahead) {
		c.ahead = make([]modelRecord, 0, n) // an event has two bytes at least
	}
	return true
}

// noEvent handles what is no event that may be in a batch.
func (md *model) noEvent(c *modelCursor) modelRead {
	t := c.kind
	what := "which is none of a thread"
	if modelSpecs[t].name == "" {
		what = "which does not exist"
	}
	md.judge.add(Error, CodeUnknownEvent, md.at(c), "%s, %s; the batch's last %d bytes are left out", modelName(t), what, c.size-int(c.start))
	return md.leaveBatch(c)
}

// cutOff handles an event with a number that cannot be read.
func (md *model) cutOff(c *modelCursor) modelRead {
	code := CodeCutOff
	at := int(c.start) + 1
	for n := modelSpecs[c.kind].args; n > 0 && at <= c.size; n-- {
		if _, next := modelNumber(c.data, at); next >= 0 && next <= c.size {
			at = next
			continue
		}
		code = modelNumberFault(c.data, at, c.size)
		break
	}
	what := "is cut off by the end of its batch"
	if code == CodeOverflow {
		what = "has a number of more than 64 bits"
	}
	md.judge.add(Error, code, md.at(c), "%s %s; the batch's last %d bytes are left out", md.name(c), what, c.size-int(c.start))
	return md.leaveBatch(c)
}

// leaveBatch leaves out the rest of a batch that cannot be read. What the model knows is unsure from then on.
func (md *model) leaveBatch(c *modelCursor) modelRead {
	md.loseSight()
	c.thread.unsureP, c.thread.unsureG = true, true
	c.pos = c.size
	if !md.lenient {
		return modelReadFault
	}
	return modelReadSkip
}

// atBatch returns the place of a cursor's batch.
func (md *model) atBatch(c *modelCursor) modelPlace {
	p := modelPlace{generation: md.gen.number, batch: -1, event: -1, thread: c.thread.id}
	if len(c.batches) > 0 {
		b := &c.batches[0]
		p.batch, p.offset = b.number, b.offset-int64(b.header)
	}
	return p
}

// at returns the place of a cursor's event.
func (md *model) at(c *modelCursor) modelPlace {
	p := md.atBatch(c)
	if len(c.batches) > 0 {
		p.offset = c.batches[0].offset + int64(c.start)
	}
	p.cursor = c
	return p
}

// eventNumber returns how many events of the batch there are before the cursor's.
func (c *modelCursor) eventNumber() int {
	n := 0
	for at := 0; at < int(c.start); n++ {
		args := modelSpecs[c.data[at]].args
		for at++; args > 0; args-- {
			_, at = modelNumber(c.data, at)
		}
	}
	return n
}

// name returns the name of a cursor's event.
func (md *model) name(c *modelCursor) string { return modelName(c.kind) }
