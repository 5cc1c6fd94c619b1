package kafkago

import (
	"cmp"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafka"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	sendBegin = iota
	sendEnd
	joins
	written
	ask
	receive
	noHeader
)

// maxKept bounds the goroutines that are kept.
const maxKept = 1 << 14

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	receiver *kafka.Receiver
	empty    map[uint64]bool // goroutines that send no messages
	batches  batches
}

func newDecoder(t *join.Tracker, typeName func(uint64) (string, error)) *decoder {
	return &decoder{tracker: t, typeName: typeName, receiver: kafka.NewReceiver(t, Library), empty: map[uint64]bool{}, batches: newBatches()}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case sendBegin:
		d.sendBegin(n)
	case sendEnd:
		d.sendEnd(n)
	case joins:
		for _, m := range d.batches.join(n.G, n.Word(), n.Word()) {
			if m.call.returned && m.call.left == 0 {
				d.tracker.Supersede(m.call.span, n.Time)
			}
		}
	case written:
		d.written(n)
	case ask:
		d.receiver.Ask(n)
	case receive:
		d.receive(n)
	case noHeader:
		sets.Missing(d.tracker, n)
	}
}

func (d *decoder) sendBegin(n *probe.Note) {
	context, silent := sets.Sent(n)
	passed := sets.Contexts(n)
	count, async, value := n.Word(), n.Word(), n.Word()
	topic := n.Text()
	n.Word()
	key := n.Text()
	addrType := n.Word()
	addr := n.Text()
	transport := n.Word()
	client := n.Text()
	if s := d.tracker.Innermost(n.G, Library, trace.SpanKindProducer); s != nil { // its end was lost, or it has panicked
		d.tracker.Supersede(s, n.Time)
	}
	delete(d.empty, n.G)
	delete(d.batches.open, n.G)
	if count == 0 {
		if len(d.empty) < maxKept {
			d.empty[n.G] = true
		}
		return
	}
	if count >= 1<<31 {
		d.tracker.Mismatch()
		return
	}
	for range count {
		if !silent {
			break
		}
		d.tracker.NoHeader()
	}
	s := &spans.Span{Library: Library, Start: n.Time, G: n.G, Context: context}
	kafka.SetSend(s, kafka.Message{Topic: kafka.Topic(topic), Count: int(count), Partition: kafka.Unknown, Offset: kafka.Unknown,
		Key: kafka.Key(key), Tombstone: count == 1 && value == 0})
	if d.is(addrType, "*kafka.networkAddress") {
		s.Set(kafka.Server(kafka.Topic(addr))...)
	}
	if d.is(transport, "*kafka.Transport") {
		s.Set(kafka.Client(kafka.Topic(client), "")...)
	}
	d.tracker.Begin(s, passed...)
	c := d.batches.begin(s, count == 1, async != 0)
	c.unread = topic.Marks&probe.MarkUnreadable != 0 // engine uprobe cannot read a constant that the program has not read yet
}

func (d *decoder) sendEnd(n *probe.Note) {
	typ, code, innerType, innerCode := n.Word(), n.Word(), n.Word(), n.Word()
	if d.empty[n.G] {
		delete(d.empty, n.G)
		return
	}
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindProducer)
	c := d.batches.end(n.G)
	switch {
	case s == nil:
		d.tracker.Stray()
		return
	case typ == 0:
		if c != nil && c.async && c.left > 0 {
			c.returned = true
			d.tracker.Detach(s, c.id)
			return
		}
	case innerType != 0 && d.is(typ, "kafka.WriteErrors"):
		kafka.Fail(s, d.errorName(innerType, innerCode))
	default:
		kafka.Fail(s, d.errorName(typ, code))
	}
	d.tracker.End(s, n.Time)
}

// written takes the result of a batch.
func (d *decoder) written(n *probe.Note) {
	batch, size, typ, code, acks, partition, offset := n.Word(), n.Word(), n.Word(), n.Word(), n.Word(), n.Word(), n.Word()
	topic := n.Text()
	if batch == 0 {
		d.tracker.Mismatch()
		return
	}
	for _, m := range d.batches.take(batch) {
		c := m.call
		c.left--
		if c.span.End != 0 {
			continue
		}
		if c.unread {
			kafka.SetTopic(c.span, kafka.Topic(topic))
		}
		switch {
		case m.first >= size: // it had no room
		case typ != 0:
			if c.async && !c.failed {
				c.failed = true
				kafka.Fail(c.span, d.errorName(typ, code))
			}
		case c.single && acks == 0: // the broker was asked for no answer
			kafka.SetPosition(c.span, int64(int32(partition)), kafka.Unknown)
		case c.single:
			kafka.SetPosition(c.span, int64(int32(partition)), int64(offset+m.first))
		}
		if c.returned && c.left == 0 {
			d.tracker.End(c.span, n.Time)
		}
	}
}

func (d *decoder) receive(n *probe.Note) {
	context := sets.Context(n)
	partition, offset, value := n.Word(), n.Word(), n.Word()
	parent := kafka.Carried(d.tracker, n, context, kafka.Parent(d.tracker, n))
	topic := n.Text()
	n.Word()
	key := n.Text()
	if !kafka.Valid(partition, offset) || topic.Length == 0 && n.Marks&probe.MarkSecret == 0 {
		d.tracker.Mismatch()
		return
	}
	d.receiver.Begin(n, context, kafka.Message{Topic: kafka.Topic(topic), Count: 1, Partition: int64(partition), Offset: int64(offset), Key: kafka.Key(key),
		Tombstone: value == 0}, parent)
}

// is reports whether the type at an address has a name.
func (d *decoder) is(addr uint64, name string) bool {
	if addr == 0 {
		return false
	}
	got, err := d.typeName(addr)
	return err == nil && got == name
}

// errorName returns the type of an error, or the name of an error of the protocol, given the first word of its value.
func (d *decoder) errorName(typ, code uint64) string {
	name, err := d.typeName(typ)
	if err != nil {
		name = ""
	}
	if name == "kafka.Error" && code != 0 {
		return kafka.ErrorName(int16(code))
	}
	return cmp.Or(name, semconv.ErrorTypeOther.Value.AsString())
}
