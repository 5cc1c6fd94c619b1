package kafkatest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// EachPropagating runs a test with each version of a program whose messages carry contexts, while the program collects garbage. Unless
// LOUPE_RELEASES chooses all releases, it is the newest version.
func EachPropagating(t *testing.T, program, prefix string, versions []Version, test func(t *testing.T, v Version, o *Observed)) {
	broker := Broker(t)
	if !testtarget.Requested() {
		versions = versions[len(versions)-1:]
		t.Log(testtarget.LeftOut + "versions other than the newest")
	}
	for _, v := range versions {
		for _, b := range testtarget.Variants(t, testtarget.Since(v.Release)...) {
			spec := v.spec(program, prefix, b.Go, b.Stripped)
			t.Run(spec.String(), func(t *testing.T) {
				o := Propagating(t, spec, broker)
				o.Do("garbage", "ok")
				test(t, v, o)
			})
		}
	}
}

// Broker starts a broker.
func Broker(t *testing.T) *testtarget.Process {
	return testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "postoffice", Flags: "-modfile=kfake.mod"}))
}

// Propagating observes a program whose messages carry contexts. Memory that it has freed is overwritten.
func Propagating(t *testing.T, spec testtarget.Spec, broker *testtarget.Process) *Observed {
	t.Helper()
	cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
	cmd.Env = append(cmd.Environ(), "GODEBUG=clobberfree=1")
	target := testtarget.StartCmd(t, cmd)
	var o *Observed
	t.Cleanup(func() { // after the probes have been removed
		if !o.killed && o.Lent() && !o.KeepsLoans {
			t.Error("memory that the probes have lent is still in the program")
		}
	})
	o = observe(t, target, broker, loupe.Options{Engine: loupe.EngineInline, Spans: loupe.SpanOptions{Propagation: &loupe.Propagation{Baggage: true}}})
	if !o.Lent() {
		t.Error("the probes have no memory to lend")
	}
	return o
}

// Lent reports whether the program has the memory that probes lend. No other mapping that can be written has its size; one of reserved
// address space can have it by chance, because the heap begins at a random address since Go 1.26.
func (o *Observed) Lent() bool {
	o.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", o.target.PID()))
	if err != nil {
		o.t.Fatal(err)
	}
	maps, err := procmap.Parse(b)
	if err != nil {
		o.t.Fatal(err)
	}
	return slices.ContainsFunc(maps, func(m procmap.Mapping) bool {
		return m.End-m.Start == uint64(csrc.LoansSize) && strings.HasPrefix(m.Perms, "rw")
	})
}

// Kill kills the program.
func (o *Observed) Kill() {
	o.killed = true
	o.target.Kill()
}

// Header returns a context as a traceparent header.
func Header(c trace.SpanContext) string {
	return fmt.Sprintf("traceparent=00-%s-%s-%s", c.TraceID(), c.SpanID(), c.TraceFlags())
}

// Linked executes a command that sends messages to a topic, and returns its spans, with those of other libraries. Each of the n messages
// that were added to the topic has one header, which is that of a span of the library; each of these spans has sent the number of messages
// that it says. The topic had old messages.
func (o *Observed) Linked(library, command, answer, topic string, sent, old, n int) []*spans.Span {
	o.t.Helper()
	return o.linked(library, command, answer, topic, sent, sent, old, n)
}

// linked is Linked for a command that has some spans, and among them those of messages that were sent.
func (o *Observed) linked(library, command, answer, topic string, some, sent, old, n int) []*spans.Span {
	o.t.Helper()
	o.Do(command, answer)
	all := o.take(some, library)
	want := map[string]int{}
	for _, s := range all {
		if s.Library != library || s.Kind != trace.SpanKindProducer {
			continue
		}
		if want[Header(s.Context)] != 0 {
			o.t.Errorf("%s: two spans have the same context", command)
		}
		want[Header(s.Context)] = 1
		for _, a := range s.Attributes {
			if a.Key == "messaging.batch.message_count" {
				want[Header(s.Context)] = int(a.Value.AsInt64())
			}
		}
	}
	if len(want) != sent {
		o.t.Errorf("%s: spans of messages that were sent: %d, want %d", command, len(want), sent)
	}
	records := o.Records(topic)
	if len(records) != old+n {
		o.t.Errorf("%s: messages of the broker: %d, want %d", command, len(records), old+n)
	}
	got, without := map[string]int{}, 0
	for _, r := range records {
		header := r[strings.LastIndexByte(r, '|')+1:]
		if _, ok := want[header]; ok {
			got[header]++
		} else {
			without++
		}
	}
	if without != old {
		o.t.Errorf("%s: messages with other headers or none: %d, want %d", command, without, old)
	}
	for header, n := range want {
		if got[header] != n {
			o.t.Errorf("%s: messages with %s: %d, want %d; this may be so with others", command, header, got[header], n)
			break
		}
	}
	return all
}

// Chain executes a command that receives n messages, which carry contexts, and sends a message for each to a topic that is empty. Each
// message that is sent belongs to the trace of the one that was received.
func (o *Observed) Chain(library, command, answer, topic string, n int) {
	o.t.Helper()
	received, sent := map[trace.SpanID]*spans.Span{}, map[string]bool{}
	all := o.linked(library, command, answer, topic, 2*n, n, 0, n)
	for _, s := range all {
		if s.Kind == trace.SpanKindConsumer {
			received[s.Context.SpanID()] = s
		}
	}
	for _, s := range all {
		if s.Kind != trace.SpanKindProducer {
			continue
		}
		from := received[s.Parent.SpanID()]
		if from == nil || from.Rule != spans.RuleHeader || from.Context.TraceID() != s.Context.TraceID() || from.Parent.TraceID() != s.Context.TraceID() || len(s.Links) > 0 {
			o.t.Errorf("%s: %v was sent while %+v was processed", command, s.Context, from)
		}
		sent[s.Parent.SpanID().String()] = true
	}
	if len(sent) != n {
		o.t.Errorf("%s: the messages that were sent belong to %d that were received, want %d", command, len(sent), n)
	}
}

// Carries passes messages with tracestate and baggage through the program: relay returns the command that receives a message of a topic and
// sends one to another, which must have the same. The number of messages that carry not all of it must be right, too.
func (o *Observed) Carries(library, answer string, relay func(from, to string) string) {
	o.t.Helper()
	const parent = "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	long := func(n int) string { return strings.Repeat("x", n-2) }
	none := uint64(0)
	for i, c := range []struct {
		sent, want string
		missing    uint64
	}{
		{";tracestate=a=1,b=2;baggage=user=7", ";tracestate=a=1,b=2;baggage=user=7", 0},
		{";baggage=user=7", ";baggage=user=7", 0},
		{";tracestate=a=1", ";tracestate=a=1", 0},
		{";tracestate=a=" + long(256) + ";baggage=b=" + long(496), ";tracestate=a=" + long(256) + ";baggage=b=" + long(496), 0},
		{";tracestate=a=" + long(257) + ";baggage=b=7", ";baggage=b=7", 1},
		{";tracestate=a;baggage=b=" + long(497), "", 1},
		{";tracestate=a=1;tracestate=b=2", "", 1},
		{"", "", 0},
	} {
		from, to := o.Topic(fmt.Sprint("from", i), 1), o.Topic(fmt.Sprint("to", i), 1)
		o.Broker.Command("post " + from + " " + parent + c.sent)
		o.Do(relay(from, to), answer)
		all := o.take(2, library)
		o.Last(to, "TRACEPARENT"+c.want, Find(o.t, all, trace.SpanKindProducer))
		none += c.missing
		if counts, err := o.SpanCounts(); err != nil || counts.NoState != none {
			o.t.Errorf("%s: messages that do not carry all: %d, want %d (%v)", c.sent, counts.NoState, none, err)
		}
		state, _, _ := strings.Cut(strings.TrimPrefix(c.want, ";tracestate="), ";")
		if received := Find(o.t, all, trace.SpanKindConsumer); strings.HasPrefix(c.want, ";tracestate=") && received.Context.TraceState().String() != state {
			o.t.Errorf("%s: tracestate %q of a message that was received", c.sent, received.Context.TraceState())
		}
	}
}

// Records returns the messages of a topic, as another client has received them: see the program postoffice.
func (o *Observed) Records(topic string) []string {
	return strings.Fields(o.Broker.Command("records " + topic))
}

// Last compares the headers of the last message in a topic. TRACEPARENT stands for a traceparent header of the span that has sent it.
func (o *Observed) Last(topic, want string, span *spans.Span) {
	o.t.Helper()
	records := o.Records(topic)
	if len(records) == 0 {
		o.t.Fatalf("%s has no messages", topic)
	}
	if span != nil {
		want = strings.ReplaceAll(want, "TRACEPARENT", Header(span.Context))
	}
	if got := records[len(records)-1]; got[strings.LastIndexByte(got, '|')+1:] != want {
		o.t.Errorf("the last message of %s is %q, want headers %q", topic, got, want)
	}
}

// Missing checks how many messages were sent without a header although they were to have one.
func (o *Observed) Missing(want uint64) {
	o.t.Helper()
	if c, err := o.SpanCounts(); err != nil || c.NoHeader != want {
		o.t.Errorf("messages without a header: %d, want %d (%v)", c.NoHeader, want, err)
	}
}

// Find returns the only span of a kind among others.
func Find(t *testing.T, all []*spans.Span, kind trace.SpanKind) *spans.Span {
	t.Helper()
	list := slices.DeleteFunc(slices.Clone(all), func(s *spans.Span) bool { return s.Kind != kind })
	if len(list) != 1 {
		t.Fatalf("spans of kind %s: %d", kind, len(list))
	}
	return list[0]
}
