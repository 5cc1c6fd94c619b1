package sarama

import (
	"cmp"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafka"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	send = iota
	dispatch
	sent
	failed
	noHeader
	ask
	taken
	group
	claimFailed
	claimEnd
	response
	fed
	fedAll
)

// chunk is the maximum number of messages in a note, as in probes.c.
const chunk = 64

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	library  string
	called   map[uint64]bool // messages with which SendMessage was called, until the producer takes them
	consumer *consumer
}

// maxCalled bounds decoder.called. Messages that were never taken are among them.
const maxCalled = 1 << 16

func newDecoder(t *join.Tracker, typeName func(uint64) (string, error), library string) *decoder {
	return &decoder{tracker: t, typeName: typeName, library: library, called: map[uint64]bool{}, consumer: newConsumer(t, typeName, library)}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case send, dispatch:
		d.begin(n)
	case sent, failed:
		d.end(n)
	case noHeader:
		sets.Missing(d.tracker, n)
	default:
		d.consumer.decode(n)
	}
}

// begin begins the span of a message. The goroutines of the producer end it.
func (d *decoder) begin(n *probe.Note) {
	context, silent := sets.Sent(n)
	own, message, value := n.Word(), n.Word(), n.Word()
	topic := n.Text()
	encoder := n.Word()
	key := n.Text()
	if message == 0 {
		d.tracker.Mismatch()
		return
	}
	if n.What == dispatch {
		called := d.called[message]
		delete(d.called, message)
		if called && d.tracker.Find(d.library, message) != nil {
			return
		}
	} else {
		if len(d.called) >= maxCalled {
			clear(d.called)
		}
		d.called[message] = true
	}
	if silent && own == 0 {
		d.tracker.NoHeader()
	}
	m := kafka.Message{Topic: kafka.Topic(topic), Count: 1, Partition: kafka.Unknown, Offset: kafka.Unknown, Tombstone: value == 0}
	if name, _ := d.typeName(encoder); name == "sarama.StringEncoder" || name == "sarama.ByteEncoder" {
		m.Key = kafka.Key(key)
	}
	s := &spans.Span{Library: d.library, Start: n.Time, G: n.G, Context: context}
	kafka.SetSend(s, m)
	d.tracker.Begin(s)
	d.tracker.Detach(s, message)
}

// end ends the spans of messages.
func (d *decoder) end(n *probe.Note) {
	count, acks, typ, code := n.Word(), n.Word(), n.Word(), n.Word()
	var messages, partitions, offsets [chunk]uint64
	if count > chunk {
		d.tracker.Mismatch()
		return
	}
	for i := range count {
		messages[i], partitions[i], offsets[i] = n.Word(), n.Word(), n.Word()
	}
	client := kafka.Client(kafka.Topic(n.Text()), "")
	topic := kafka.Topic(n.Text())
	for i := range count {
		delete(d.called, messages[i])
		s := d.tracker.Find(d.library, messages[i])
		if s == nil {
			d.tracker.Stray()
			continue
		}
		kafka.SetTopic(s, topic) // engine uprobe cannot read a constant that the program has not read yet
		s.Set(client...)
		switch {
		case n.What == failed:
			kafka.Fail(s, errorName(d.typeName, typ, code))
		case acks == 0: // the broker was asked for no answer
			kafka.SetPosition(s, int64(int32(partitions[i])), kafka.Unknown)
		default:
			kafka.SetPosition(s, int64(int32(partitions[i])), int64(offsets[i]))
		}
		d.tracker.End(s, n.Time)
	}
}

// errorName returns the type of an error, or the name of an error of the protocol, given the first word of its value.
func errorName(typeName func(uint64) (string, error), typ, code uint64) string {
	name, err := typeName(typ)
	if err != nil {
		name = ""
	}
	if name == "sarama.KError" && int16(code) != 0 {
		return kafka.ErrorName(int16(code))
	}
	return cmp.Or(name, semconv.ErrorTypeOther.Value.AsString())
}
