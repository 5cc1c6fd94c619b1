package join

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// A handOff is something that a goroutine in a span has given to another one by a channel, at which one of them waited. It may be work.
type handOff struct {
	from *spans.Span
	at   int64
}

const (
	maxHandOffs  = 1 << 12
	handOffLasts = int64(time.Second) // the receiver begins the work until then, if ever
)

// handOff notes what a goroutine receives that another one makes runnable.
func (t *Tracker) handOff(e *event.Event) {
	if by := t.goroutine(e.By); by != nil && sends(e.Stack) {
		t.hand(by, e.G, e.Time)
	}
}

// taken notes what another goroutine has received from one that waited to send, unless that is in a buffer now.
func (t *Tracker) taken(g *goroutine, e *event.Event) {
	channel := g.sending
	g.sending = 0
	if channel != 0 && e.By != 0 && t.goroutine(e.By) == nil && sends(e.Stack) && t.opt.Unbuffered != nil && t.opt.Unbuffered(channel) {
		t.hand(g, e.By, e.Time)
	}
}

// hand notes that a goroutine has received something from one that is in a span.
func (t *Tracker) hand(by *goroutine, to uint64, at int64) {
	if len(by.open) == 0 {
		return
	}
	from, _ := t.scope(by)
	if from == nil {
		return
	}
	if len(t.handOffs) >= maxHandOffs {
		maps.DeleteFunc(t.handOffs, func(_ uint64, h handOff) bool { return at-h.at > handOffLasts })
	}
	if len(t.handOffs) < maxHandOffs {
		t.keep(from)
		t.handOffs[to] = handOff{from, at}
	}
}

// linkHandOff links a span without a parent to the one from which its goroutine has received something.
func (t *Tracker) linkHandOff(s *spans.Span) {
	h, ok := t.handOffs[s.G]
	if !ok {
		return
	}
	delete(t.handOffs, s.G) // the next work may have come in another way
	if s.Start-h.at <= handOffLasts && s.Kind != trace.SpanKindServer && s.Kind != trace.SpanKindConsumer {
		t.keepIdentity(h.from)
		s.Links, s.LinkRule = slices.Insert(s.Links, 0, h.from.Context), spans.RuleChannel
	}
}

// sends reports whether the program itself makes another goroutine runnable, given the stack of the one that does it: by sending to a
// channel, receiving from it or closing it. What packages of the standard library send is no work.
func sends(stack *event.Stack) bool {
	frames := ofProgram(stack)
	return len(frames) > 0 && stack.Frames[0] == frames[0] && !slices.ContainsFunc(standard, func(prefix string) bool {
		return strings.HasPrefix(frames[0].Func, prefix)
	})
}

// standard are prefixes of functions of the standard library that make other goroutines runnable.
var standard = []string{"context.", "crypto/", "database/sql.", "internal/", "io.", "log.", "log/", "net.", "net/", "os.", "os/", "runtime/", "time."}
