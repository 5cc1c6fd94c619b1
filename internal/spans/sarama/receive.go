package sarama

import (
	"cmp"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafka"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
)

// consumer makes the spans of messages that the program receives.
type consumer struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	library  string
	receiver *kafka.Receiver
	messages map[uint64]bool     // by address of a type: whether it is *ConsumerMessage
	claims   map[uint64]claim    // by the goroutine that runs ConsumeClaim
	channels map[uint64]*channel // those of partitions, by their addresses
	feeding  map[uint64]*channel // by the goroutine that sends messages to it
	asked    map[uint64]uint64   // the channel by the goroutine that receives from it, until it has got a message
}

// A claim is the part of a group in a partition. It ends before the consumer of the group, whose memory can be used again, also for one
// without a group.
type claim struct {
	consumer uint64 // its address
	group    string
}

// A channel is that by which the program receives the messages of a partition.
type channel struct {
	consumer uint64 // the address of its consumer
	client   string // its ID
	group    string // empty: none

	// seen reports that a goroutine has received a message where there are probes: all messages of the channel are processed there.
	seen bool
	// asked reports that a goroutine was about to do that. It may be one of the places that have no probe after them: dark reports that it is.
	asked, dark bool

	pending []pending // the newest messages that were sent to it, unless it is seen
	gone    int       // of these, those that the program has received
}

// A pending message is one that has no span yet.
type pending struct {
	m      kafka.Message
	parent trace.SpanContext
	g      uint64
	at     int64
}

// Bounds of what a consumer keeps.
const (
	maxPending    = 1 << 16
	maxChannels   = 1 << 16
	maxGoroutines = 1 << 14
	maxTypes      = 1 << 10
)

func newConsumer(t *join.Tracker, typeName func(uint64) (string, error), library string) *consumer {
	return &consumer{tracker: t, typeName: typeName, library: library, receiver: kafka.NewReceiver(t, library), messages: map[uint64]bool{},
		claims: map[uint64]claim{}, channels: map[uint64]*channel{}, feeding: map[uint64]*channel{}, asked: map[uint64]uint64{}}
}

func (c *consumer) decode(n *probe.Note) {
	switch n.What {
	case ask:
		c.ask(n)
	case taken:
		c.taken(n)
	case group:
		consumer := n.Word()
		bound(c.claims, maxGoroutines)
		c.claims[n.G] = claim{consumer, kafka.Topic(n.Text())}
	case claimFailed:
		typ, code := n.Word(), n.Word()
		if s := c.tracker.Innermost(n.G, c.library, trace.SpanKindConsumer); s != nil {
			kafka.Fail(s, errorName(c.typeName, typ, code))
		}
	case claimEnd:
		delete(c.asked, n.G)
		delete(c.claims, n.G)
		c.receiver.Rest(n)
	case response:
		c.response(n)
	case fed:
		c.fed(n)
	case fedAll:
		addr, waiting := n.Word(), n.Word()
		if ch := c.channels[addr]; ch != nil {
			ch.left(waiting)
			c.report(ch)
			delete(c.channels, addr)
			delete(c.feeding, n.G)
		}
	}
}

// bound makes room in a map.
func bound[V any](m map[uint64]V, limit int) {
	if len(m) >= limit {
		clear(m)
	}
}

// ask ends the message that the goroutine has processed so far, if it is about to receive from a channel of a partition.
func (c *consumer) ask(n *probe.Note) {
	addr, typ := n.Word(), n.Word()
	if !c.isMessage(typ) {
		return
	}
	before, again := c.asked[n.G]
	bound(c.asked, maxGoroutines)
	c.asked[n.G] = addr
	ch := c.channels[addr]
	if ch == nil { // another channel of the program, or no message was sent to it yet
		return
	}
	ch.asked = true
	if again && before == addr && !ch.seen && ch.gone > 0 {
		ch.dark = true
		c.report(ch)
	}
	c.receiver.Rest(n)
}

// isMessage reports whether the type at an address is *ConsumerMessage.
func (c *consumer) isMessage(addr uint64) bool {
	is, known := c.messages[addr]
	if !known {
		name, err := c.typeName(addr)
		is = err == nil && name == "*sarama.ConsumerMessage"
		bound(c.messages, maxTypes)
		c.messages[addr] = is
	}
	return is
}

func (c *consumer) taken(n *probe.Note) {
	context := sets.Context(n)
	addr := n.Word()
	m, parent, ok := c.message(n, context)
	asked, known := c.asked[n.G]
	if !known {
		return
	}
	delete(c.asked, n.G)
	ch := c.channels[cmp.Or(addr, asked)]
	if ch == nil {
		return
	}
	ch.seen, ch.dark, ch.pending, ch.gone = true, false, nil, 0
	if !ok {
		c.tracker.Mismatch()
		return
	}
	c.receiver.Use(n.G, ch.group, ch.client)
	c.receiver.Begin(n, context, m, parent)
}

// message reads a message (note_received in C), and the context of its sender. context is the one that the C half has chosen.
func (c *consumer) message(n *probe.Note, context trace.SpanContext) (m kafka.Message, parent trace.SpanContext, ok bool) {
	partition, offset, value := n.Word(), n.Word(), n.Word()
	parent = kafka.Carried(c.tracker, n, context, kafka.Parent(c.tracker, n))
	topic := n.Text()
	n.Word()
	key := n.Text()
	partition = uint64(uint32(partition))
	if !kafka.Valid(partition, offset) || topic.Length == 0 && n.Marks&probe.MarkSecret == 0 {
		return m, parent, false
	}
	return kafka.Message{Topic: kafka.Topic(topic), Count: 1, Partition: int64(partition), Offset: int64(offset), Key: kafka.Key(key), Tombstone: value == 0},
		parent, true
}

// response notes that the goroutine has sent all messages to a channel that came before, and is about to send others.
func (c *consumer) response(n *probe.Note) {
	addr, waiting, consumer := n.Word(), n.Word(), n.Word()
	client := n.Text()
	ch := c.channels[addr]
	if ch == nil || ch.consumer != consumer {
		bound(c.channels, maxChannels)
		ch = &channel{consumer: consumer, client: kafka.Topic(client)}
		for _, claim := range c.claims {
			if claim.consumer == consumer {
				ch.group = claim.group
			}
		}
		for _, asked := range c.asked {
			ch.asked = ch.asked || asked == addr
		}
		c.channels[addr] = ch
	}
	bound(c.feeding, maxGoroutines)
	c.feeding[n.G] = ch
	ch.left(waiting)
	if !ch.asked || ch.dark {
		c.report(ch)
	}
}

// fed notes that a message is about to be sent to the channel.
func (c *consumer) fed(n *probe.Note) {
	m, parent, ok := c.message(n, trace.SpanContext{})
	ch := c.feeding[n.G]
	switch {
	case ch == nil:
		c.tracker.Stray()
	case !ok:
		c.tracker.Mismatch()
	case !ch.seen:
		if len(ch.pending) == maxPending { // more than a channel can have: the program has received them
			ch.gone = maxPending
			c.report(ch)
		}
		ch.pending = append(ch.pending, pending{m, parent, n.G, n.Time})
	}
}

// left notes how many messages are waiting in the channel. The program has received the others.
func (ch *channel) left(waiting uint64) {
	if n := uint64(len(ch.pending)); waiting < n {
		ch.gone = int(n - waiting)
	}
}

// report makes spans of the messages that the program has received.
func (c *consumer) report(ch *channel) {
	for _, p := range ch.pending[:ch.gone] {
		s := &spans.Span{Library: c.library, Start: p.at, G: p.g, Parent: p.parent}
		kafka.SetReceive(s, p.m)
		s.Set(kafka.Client(ch.client, ch.group)...)
		c.tracker.Begin(s)
		c.tracker.End(s, p.at)
	}
	ch.pending, ch.gone = append(ch.pending[:0], ch.pending[ch.gone:]...), 0
}
