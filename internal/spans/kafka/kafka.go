// Package kafka is what the sets of probes for clients of Kafka share: the names, the attributes and the errors of messages by
// OpenTelemetry's semantic conventions.
//
// A message that is sent is a span of kind producer, named "send TOPIC". Messages that are received are processed from the return of the
// call that delivered them until the same goroutine asks for the next ones or ends, or until the operation around it ends: a span of kind
// consumer, named "process TOPIC". What other goroutines do with the messages is not part of it. While a goroutine waits for messages, its
// events are not observed; if it does that in a request that it serves, the breakdown of the request is uncertain, and if contexts are
// propagated, what it sends after that is not in the trace of the request. Messages of which it is not known when they are processed are
// spans of kind client, named "receive TOPIC".
//
// A tracestate in the headers of a message is that of the span. If contexts are propagated, that and the baggage of a message are carried on by
// the requests and the messages that the program sends while it processes the message: by messages in headers tracestate and baggage.
//
// The central type is [Message].
package kafka

import (
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
)

// Unknown is a number of a Message that is unknown.
const Unknown = -1

// A Message is a message, or several of one topic.
type Message struct {
	Topic     string // empty: unknown, or the messages have different topics
	Count     int    // number of messages, or Unknown for many
	Partition int64  // of a message, or of all
	Offset    int64  // of a message
	Key       string // of a message; empty: none, or it is not a text
	Tombstone bool   // the message has no value
}

// SetSend sets the kind, the name and the attributes of a span of messages that are sent.
func SetSend(s *spans.Span, m Message) {
	s.Kind = trace.SpanKindProducer
	set(s, "send", m)
}

// SetProcess sets the kind, the name and the attributes of a span of messages that are processed.
func SetProcess(s *spans.Span, m Message) {
	s.Kind = trace.SpanKindConsumer
	set(s, "process", m)
}

// SetReceive sets the kind, the name and the attributes of a span of messages of which it is only known that the program has got them.
func SetReceive(s *spans.Span, m Message) {
	s.Kind = trace.SpanKindClient
	set(s, "receive", m)
}

func set(s *spans.Span, operation string, m Message) {
	s.Name = operation
	s.Set(semconv.MessagingSystemKafka, semconv.MessagingOperationName(operation), semconv.MessagingOperationTypeKey.String(operation))
	SetTopic(s, m.Topic)
	SetPosition(s, m.Partition, m.Offset)
	if m.Count != 1 {
		if m.Count != Unknown {
			s.Set(semconv.MessagingBatchMessageCount(m.Count))
		}
		return
	}
	if m.Key != "" {
		s.Set(semconv.MessagingKafkaMessageKey(m.Key))
	}
	if m.Tombstone {
		s.Set(semconv.MessagingKafkaMessageTombstone(true))
	}
}

// SetTopic sets the topic in the name and the attributes of a span, if it is known and the span has none.
func SetTopic(s *spans.Span, topic string) {
	if topic == "" || strings.Contains(s.Name, " ") {
		return
	}
	s.Name += " " + topic
	s.Set(semconv.MessagingDestinationName(topic))
}

// SetPosition sets the attributes of the place of a message, as far as it is known.
func SetPosition(s *spans.Span, partition, offset int64) {
	if partition != Unknown {
		s.Set(semconv.MessagingDestinationPartitionID(strconv.FormatInt(partition, 10)))
	}
	if offset != Unknown {
		s.Set(semconv.MessagingKafkaOffset(int(offset)))
	}
}

// Topic returns the name of a topic.
func Topic(t probe.Text) string {
	if t.Marks != 0 {
		return ""
	}
	return string(t.Bytes)
}

// Key returns the key of a message if it is a text that can be printed. Other keys have no unambiguous form.
func Key(t probe.Text) string {
	if t.Marks != 0 || !utf8.Valid(t.Bytes) {
		return ""
	}
	for _, r := range string(t.Bytes) {
		if !unicode.IsPrint(r) {
			return ""
		}
	}
	return string(t.Bytes)
}

// Parent reads what a search of headers has found, and returns the context of the sender. It is invalid if a message has none.
func Parent(t *join.Tracker, n *probe.Note) trace.SpanContext {
	found := n.Word()
	parents := uint64(uint32(found))
	t.Searched(parents, found>>32)
	return sets.Parent(parents, n.Text().Bytes)
}

// Carried reads what a message has beside its traceparent header (note_states in C), and returns the context of the sender with the
// tracestate. context is the one that the C half has chosen: what is then not carried on is counted.
func Carried(t *join.Tracker, n *probe.Note, context, parent trace.SpanContext) trace.SpanContext {
	parent, dropped := sets.Carried(n, context, parent)
	if dropped {
		t.NoState()
	}
	return parent
}

// Valid reports whether a partition and an offset that were read from a message are possible.
func Valid(partition, offset uint64) bool {
	return partition < 1<<31 && offset < 1<<63
}

// Server returns the attributes of a broker, such as "localhost:9092".
func Server(address string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		if address == "" {
			return nil
		}
		return []attribute.KeyValue{semconv.ServerAddress(address)}
	}
	list := []attribute.KeyValue{semconv.ServerAddress(host)}
	if p, err := strconv.Atoi(port); err == nil && p > 0 && p < 1<<16 {
		list = append(list, semconv.ServerPort(p))
	}
	return list
}

// Client returns the attributes of a client: its ID and its group, if it has them.
func Client(id, group string) []attribute.KeyValue {
	var list []attribute.KeyValue
	if id != "" {
		list = append(list, semconv.MessagingClientID(id))
	}
	if group != "" {
		list = append(list, semconv.MessagingConsumerGroupName(group))
	}
	return list
}

// ErrorName returns the name of an error of Kafka's protocol, or its number.
func ErrorName(code int16) string {
	switch {
	case code == -1:
		return "UNKNOWN_SERVER_ERROR"
	case code > 0 && int(code) <= len(names):
		return names[code-1]
	}
	return strconv.Itoa(int(code))
}

// Fail sets an error of a type.
func Fail(s *spans.Span, typ string) {
	s.Set(semconv.ErrorTypeKey.String(typ))
	s.Fail("")
}
