package kafka

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/spans"
)

// A Receiver makes the spans of messages that goroutines receive with a client.
type Receiver struct {
	tracker *join.Tracker
	library string
	clients map[uint64]client // by goroutine: that with which it receives
}

// A client is what a goroutine receives with.
type client struct{ server, group, id string }

// maxClients bounds the goroutines that are kept. Those that have ended are among them.
const maxClients = 1 << 14

// NewReceiver returns a Receiver of a library.
func NewReceiver(t *join.Tracker, library string) *Receiver {
	return &Receiver{tracker: t, library: library, clients: map[uint64]client{}}
}

// Ask takes a note of a goroutine that asks for messages: note_client in C. It ends those that the goroutine has processed so far.
func (r *Receiver) Ask(n *probe.Note) {
	server, group, id := n.Text(), n.Text(), n.Text()
	c, known := r.clients[n.G]
	if !known && len(r.clients) >= maxClients {
		clear(r.clients)
	}
	update(&c.server, server)
	update(&c.group, group)
	update(&c.id, id)
	r.clients[n.G] = c
	r.Rest(n)
}

// Use sets what a goroutine receives with.
func (r *Receiver) Use(g uint64, group, id string) {
	if len(r.clients) >= maxClients {
		clear(r.clients)
	}
	r.clients[g] = client{group: group, id: id}
}

// Rest takes a note of a goroutine that has processed its messages so far, and waits for others.
func (r *Receiver) Rest(n *probe.Note) {
	if s := r.tracker.Innermost(n.G, r.library, trace.SpanKindConsumer); s != nil {
		r.tracker.End(s, n.Time)
	}
	r.tracker.Rest(n.G, n.Time)
}

// update sets a string to a text. Most often it is the same.
func update(s *string, t probe.Text) {
	if string(t.Bytes) != *s {
		*s = Topic(t)
	}
}

// Begin begins the span of messages that a goroutine receives. context is the one that the C half has chosen, if it has. parents are the
// contexts of their senders: that of a single message is the parent of the span, those of several are links.
func (r *Receiver) Begin(n *probe.Note, context trace.SpanContext, m Message, parents ...trace.SpanContext) {
	if s := r.tracker.Innermost(n.G, r.library, trace.SpanKindConsumer); s != nil { // the note between them was lost
		r.tracker.Supersede(s, n.Time)
	}
	s := &spans.Span{Library: r.library, Start: n.Time, G: n.G, Context: context}
	for _, p := range parents {
		switch {
		case !p.IsValid():
		case m.Count == 1:
			s.Parent = p
		default:
			s.Links = append(s.Links, p)
		}
	}
	SetProcess(s, m)
	c := r.clients[n.G]
	s.Set(Server(c.server)...)
	s.Set(Client(c.id, c.group)...)
	r.tracker.Begin(s)
}
