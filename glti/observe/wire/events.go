package wire

// Event is a kind of event. Its number does not change.
type Event uint8

// The events.
const (
	GoCreate Event = 1 + iota
	GoStart
	GoPark  // the goroutine begins to wait
	GoYield // runtime.Gosched, and what is like it
	GoPreempt
	GoUnblock
	GoEnd
	SyscallBegin
	SyscallEnd
	GCBegin
	GCEnd
	STWBegin
	STWEnd
	AssistBegin
	AssistEnd
	HeapLive // after a collection

	numEvents
)

// NumEvents is above the number of every event.
const NumEvents = int(numEvents)

// Reasons for STWBegin, in Arg.
const (
	STWMarkTermination  = 0
	STWSweepTermination = 1
)

// fields are the fields of a Record that an event has in addition to Time, in the order in which they are encoded.
type fields uint8

const (
	hasG fields = 1 << iota
	hasBy
	hasArg
	hasArg2
	hasP
	hasStack
)

// fieldsOf are the fields of each event.
var fieldsOf = [NumEvents]fields{
	GoCreate:     hasG | hasBy | hasArg | hasArg2 | hasStack,
	GoStart:      hasG | hasArg | hasP,
	GoPark:       hasG | hasArg | hasArg2 | hasStack,
	GoYield:      hasG | hasStack,
	GoPreempt:    hasG | hasStack,
	GoUnblock:    hasG | hasBy | hasStack,
	GoEnd:        hasG,
	SyscallBegin: hasG | hasStack,
	GCBegin:      hasBy | hasStack,
	SyscallEnd:   hasG,
	STWBegin:     hasBy | hasArg | hasStack,
	AssistBegin:  hasG,
	AssistEnd:    hasG,
	HeapLive:     hasArg,
}

// Record is one event.
type Record struct {
	Event Event
	Time  int64
	G     uint64 // the goroutine
	By    uint64 // GoCreate: the creator; GoUnblock: the goroutine that woke the other; GCBegin, STWBegin: the one that does it; 0 if none
	P     int32  // GoStart: the number of the processor, -1 if unknown
	// Arg is the go statement of GoCreate (a Site), the thread of GoStart, the wait reason of GoPark, the reason of STWBegin, the bytes of
	// HeapLive.
	Arg   uint64
	Arg2  uint64 // GoCreate: the function that the goroutine starts (a Func); GoPark: the reason of the execution tracer
	Stack uint64 // of By, or else of the goroutine; 0 if unknown
}

// AppendRecord appends a record of a message Events. before is the time of the record before it, or 0.
func AppendRecord(b []byte, r *Record, before int64) []byte {
	e := encoder{append(b, byte(r.Event))}
	e.int(r.Time - before)
	has := fieldsOf[r.Event]
	for _, f := range []struct {
		has   fields
		value uint64
	}{{hasG, r.G}, {hasBy, r.By}, {hasArg, r.Arg}, {hasArg2, r.Arg2}, {hasP, uint64(r.P + 1)}, {hasStack, r.Stack}} {
		if has&f.has != 0 {
			e.uint(f.value)
		}
	}
	return e.b
}

func (r *Record) decode(d *decoder, before int64) {
	if len(d.b) == 0 || int(d.b[0]) >= NumEvents || d.b[0] == 0 {
		d.b, d.bad = nil, true
		return
	}
	r.Event = Event(d.b[0])
	d.b = d.b[1:]
	r.Time = before + d.int()
	has := fieldsOf[r.Event]
	field := func(f fields) uint64 {
		if has&f == 0 {
			return 0
		}
		return d.uint()
	}
	r.G, r.By, r.Arg, r.Arg2 = field(hasG), field(hasBy), field(hasArg), field(hasArg2)
	if r.P = -1; has&hasP != 0 {
		r.P = int32(uint32(d.uint())) - 1
	}
	r.Stack = field(hasStack)
}

// Events has events, and what was lost.
type Events struct {
	Until   int64    // what had been written to the buffers of the program until then has been sent
	Lost    uint64   // events for which the buffers of the program had no room
	Stacks  uint64   // stacks for which the table of the program had no room
	Dropped []uint64 // events by Event for which the buffer of the connection had no room
	Sent    []uint64 // events by Event that were sent, with those of this message

	// Records are the events that a receiver has decoded. A sender sets Encoded, which AppendRecord made.
	Records []Record
	Encoded []byte
}

func (*Events) kind() byte { return 'E' }

func (m *Events) encode(e *encoder) {
	e.int(m.Until)
	e.uint(m.Lost)
	e.uint(m.Stacks)
	for _, list := range [][]uint64{m.Dropped, m.Sent} {
		e.uint(uint64(len(list)))
		for _, n := range list {
			e.uint(n)
		}
	}
	e.b = append(e.b, m.Encoded...)
}

func (m *Events) decode(d *decoder) {
	m.Until, m.Lost, m.Stacks = d.int(), d.uint(), d.uint()
	for _, list := range []*[]uint64{&m.Dropped, &m.Sent} {
		for n := d.length(); n > 0; n-- {
			*list = append(*list, d.uint())
		}
	}
	before := int64(0)
	for len(d.b) > 0 {
		var r Record
		r.decode(d, before)
		if d.bad {
			return
		}
		before = r.Time
		m.Records = append(m.Records, r)
	}
}
