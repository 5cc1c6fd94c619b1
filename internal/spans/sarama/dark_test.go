package sarama

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafka"
	"github.com/loupe-go/loupe/spans"
)

// TestDark receives messages where a probe is only before the receive.
func TestDark(t *testing.T) {
	var got []*spans.Span
	tracker := join.NewTracker(join.Options{Handle: func(s *spans.Span) { got = append(got, s) }})
	c := newConsumer(tracker, func(uint64) (string, error) { return "*sarama.ConsumerMessage", nil }, IBM)
	ch := &channel{client: "mailer"}
	for i := range 3 {
		ch.pending = append(ch.pending, pending{m: kafka.Message{Topic: "letters", Count: 1, Offset: int64(i)}, g: 2, at: int64(i + 1)})
	}
	c.channels[0] = ch
	note := func(g uint64) *probe.Note { return &probe.Note{G: g, Time: 10} } // all of its numbers are 0
	ended := func(want int) {
		t.Helper()
		if len(got) != want {
			t.Errorf("%d spans, want %d", len(got), want)
		}
	}
	c.ask(note(1))
	c.ask(note(1)) // another case of a select statement was chosen
	ended(0)
	c.response(note(2)) // no message waits in the channel
	ended(0)
	c.ask(note(3)) // a goroutine that has not received before
	ended(0)
	c.ask(note(1))
	ended(3)
	for i, s := range got {
		if s.Kind != trace.SpanKindClient || s.Name != "receive letters" || s.Start != int64(i+1) || s.End != s.Start {
			t.Errorf("%+v", s)
		}
	}
}

// TestClaimEnds creates a consumer without a group where that of a group was in memory. All addresses in the notes are 0.
func TestClaimEnds(t *testing.T) {
	c := newConsumer(join.NewTracker(join.Options{}), nil, IBM)
	step := func(g uint64, what uint8) { c.decode(&probe.Note{G: g, What: what}) }
	step(1, group)
	c.claims[1] = claim{group: "readers"}
	step(2, response)
	ch := c.channels[0]
	if ch.group != "readers" {
		t.Errorf("the group of a claim is %q", ch.group)
	}
	step(1, claimEnd)
	if ch.group != "readers" {
		t.Errorf("the group of what the claim has received is %q", ch.group)
	}
	step(2, fedAll)
	step(3, response)
	if got := c.channels[0].group; got != "" {
		t.Errorf("the group of a consumer without one is %q", got)
	}
}
