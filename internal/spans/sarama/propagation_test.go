package sarama_test

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/spans"
)

// TestPropagation sends messages that carry contexts. Another client receives them.
func TestPropagation(t *testing.T) {
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	list := slices.DeleteFunc(slices.Clone(versions), func(v kafkatest.Version) bool { return v.Name == "shopify-1.19.0" })
	kafkatest.EachPropagating(t, "mailer", "sarama", list, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		library, next := library(v), 0
		topic := o.Topic("letters", 1)
		linked := func(command string, n int) []*spans.Span {
			t.Helper()
			all := o.Linked(library, command, "ok", topic, n, next, n)
			next += n
			return all
		}
		linked("one "+topic+" 3", 3)
		linked("send "+topic+" 250", 250)
		linked("async "+topic+" 300", 300)
		linked("silent "+topic+" 20", 20)
		linked("erase "+topic, 1)
		linked("mute "+topic, 1)
		all := linked("inside "+topic, 2)
		server := kafkatest.Find(t, all, trace.SpanKindServer)
		for _, s := range all {
			if s.Kind == trace.SpanKindProducer && (s.Parent.SpanID() != server.Context.SpanID() || s.Context.TraceID() != server.Context.TraceID()) {
				t.Errorf("a message that was sent in %v has parent %v", server.Context, s.Parent)
			}
		}
		linked("load "+topic+" 50 20", 1000)
		linked("limit "+topic+" 200", 1)
		o.Missing(0)

		others := "first=1;traceparenT=;=;"
		traced := func(header, want string) {
			t.Helper()
			o.Do("traced "+topic+" "+header, "ok")
			o.Last(topic, others+want, kafkatest.Find(t, o.Take(library, 1), trace.SpanKindProducer))
			next++
		}
		traced(own, "traceparent="+own+";last=")
		traced("+"+own, "traceparent="+own+";traceparent="+own+";last=")
		traced("invalid", "traceparent=invalid;last=")
		o.Missing(0)
		traced("-", "last=") // the program has other headers
		o.Missing(1)
		for i, command := range []string{"custom " + topic, "limit " + topic + " 60"} {
			o.Do(command, "ok")
			o.Last(topic, "", kafkatest.Find(t, o.Take(library, 1), trace.SpanKindProducer))
			o.Missing(uint64(2 + i))
			next++
		}

		o.Broker.Command("fail 87 1")
		o.Expect(library, "one "+topic+" 1", "failed", "producer send letters client=mailer key=key0 error=INVALID_RECORD")
		linked("one "+topic+" 1", 1)
		o.Broker.Command("fail 6 1")
		linked("retried "+topic, 1)
		o.Missing(3)
		o.Complete()
	})
}
