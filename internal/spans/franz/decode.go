package franz

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
	ask
	parent
	receive
	noHeader
)

// maxParents is the number of records of a poll whose headers are searched, as in probes.c.
const maxParents = 64

// Flags of a poll, as in probes.c.
const (
	allEqual    = 1
	cut         = 2
	unsearched  = 4
	noPartition = 0xffffffff
)

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	receiver *kafka.Receiver
	parents  map[uint64][]trace.SpanContext // by goroutine: of the records that it is about to receive
}

func newDecoder(t *join.Tracker, typeName func(uint64) (string, error)) *decoder {
	return &decoder{tracker: t, typeName: typeName, receiver: kafka.NewReceiver(t, Library), parents: map[uint64][]trace.SpanContext{}}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case sendBegin:
		d.sendBegin(n)
	case sendEnd:
		d.sendEnd(n)
	case ask:
		delete(d.parents, n.G)
		d.receiver.Ask(n)
	case parent:
		if len(d.parents[n.G]) < maxParents {
			d.parents[n.G] = append(d.parents[n.G], join.ParseTraceparent(n.Text().Bytes))
		}
	case receive:
		d.receive(n)
	case noHeader:
		sets.Missing(d.tracker, n)
	}
}

// sendBegin begins the span of a record. Any goroutine can end it.
func (d *decoder) sendBegin(n *probe.Note) {
	context, silent := sets.Sent(n)
	if own := n.Word(); silent && own == 0 {
		d.tracker.NoHeader()
	}
	passed := sets.Contexts(n)
	record, value := n.Word(), n.Word()
	topic := n.Text()
	n.Word()
	key := n.Text()
	server := n.Text()
	n.Text()
	id := n.Text()
	if record == 0 {
		d.tracker.Mismatch()
		return
	}
	s := &spans.Span{Library: Library, Start: n.Time, G: n.G, Context: context}
	kafka.SetSend(s, kafka.Message{Topic: kafka.Topic(topic), Count: 1, Partition: kafka.Unknown, Offset: kafka.Unknown, Key: kafka.Key(key), Tombstone: value == 0})
	s.Set(kafka.Server(kafka.Topic(server))...)
	s.Set(kafka.Client(kafka.Topic(id), "")...)
	d.tracker.Begin(s, passed...)
	d.tracker.Detach(s, record)
}

func (d *decoder) sendEnd(n *probe.Note) {
	record, typ, partition, offset := n.Word(), n.Word(), n.Word(), n.Word()
	topic, name := n.Text(), n.Text()
	s := d.tracker.Find(Library, record)
	if s == nil {
		d.tracker.Stray()
		return
	}
	kafka.SetTopic(s, kafka.Topic(topic)) // the client has set the default topic
	if typ == 0 {
		position := int64(offset)
		if position < 0 {
			position = kafka.Unknown // the broker was asked for no answer
		}
		kafka.SetPosition(s, int64(int32(partition)), position)
	} else {
		kafka.Fail(s, d.errorName(typ, name))
	}
	d.tracker.End(s, n.Time)
}

// errorName returns the type of an error, or the name of an error of the protocol, given the text that its value may begin with.
func (d *decoder) errorName(typ uint64, text probe.Text) string {
	name, err := d.typeName(typ)
	if err != nil {
		name = ""
	}
	if name == "*kerr.Error" && text.Marks == 0 && len(text.Bytes) > 0 {
		return string(text.Bytes)
	}
	return cmp.Or(name, semconv.ErrorTypeOther.Value.AsString())
}

func (d *decoder) receive(n *probe.Note) {
	context := sets.Context(n)
	count, flags, partition, offset, value := n.Word(), n.Word(), n.Word(), n.Word(), n.Word()
	d.tracker.Searched(0, flags&unsearched) // links may be missing even if some were found
	parents := d.parents[n.G]
	delete(d.parents, n.G)
	var parent trace.SpanContext
	if len(parents) == 1 && count == 1 {
		parent = parents[0]
	}
	if parent = kafka.Carried(d.tracker, n, context, parent); parent.IsValid() {
		parents[0] = parent
	}
	topic := n.Text()
	n.Word()
	key := n.Text()
	if count >= 1<<31 || !kafka.Valid(0, offset) || topic.Length == 0 && n.Marks&probe.MarkSecret == 0 {
		d.tracker.Mismatch()
		return
	}
	m := kafka.Message{Count: int(count), Partition: kafka.Unknown, Offset: kafka.Unknown}
	if flags&allEqual != 0 {
		m.Topic = kafka.Topic(topic)
	}
	if partition != noPartition {
		m.Partition = int64(partition)
	}
	switch {
	case flags&cut != 0:
		m = kafka.Message{Count: kafka.Unknown, Partition: kafka.Unknown, Offset: kafka.Unknown}
	case count == 1:
		m.Offset, m.Key, m.Tombstone = int64(offset), kafka.Key(key), value == 0
	}
	d.receiver.Begin(n, context, m, parents...)
}
