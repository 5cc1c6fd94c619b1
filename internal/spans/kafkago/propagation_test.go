package kafkago_test

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/internal/spans/kafkago"
	"github.com/loupe-go/loupe/spans"
)

// TestPropagation sends messages that carry contexts. Another client receives them.
func TestPropagation(t *testing.T) {
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	current := []kafkatest.Version{{Name: "0.4.41", Release: "1.19.13"}, versions[len(versions)-1]}
	kafkatest.EachPropagating(t, "courier", "kafka", current, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		linked := func(command, topic string, sent, old, n int) []*spans.Span {
			t.Helper()
			return o.Linked(kafkago.Library, command, "ok", topic, sent, old, n)
		}
		topic, wide := o.Topic("letters", 1), o.Topic("wide", 4)
		linked("send "+topic+" 1", topic, 1, 0, 1)
		linked("send "+topic+" 250", topic, 1, 1, 250)
		linked("send "+wide+" 400", wide, 1, 0, 400)
		linked("many "+topic+" 3", topic, 3, 251, 3)
		linked("async "+wide+" 1000", wide, 1, 400, 1000)
		linked("erase "+topic, topic, 1, 254, 1)
		all := linked("inside "+topic, topic, 1, 255, 1)
		server, producer := kafkatest.Find(t, all, trace.SpanKindServer), kafkatest.Find(t, all, trace.SpanKindProducer)
		if producer.Parent.SpanID() != server.Context.SpanID() || producer.Context.TraceID() != server.Context.TraceID() {
			t.Errorf("a message that was sent in %v has parent %v", server.Context, producer.Parent)
		}
		crowd := o.Topic("crowd", 1)
		linked("load "+crowd+" 50 20", crowd, 1000, 0, 1000)

		others := "first=1;traceparenT=2;=;"
		traced := func(header, want string) {
			t.Helper()
			o.Do("traced "+topic+" "+header, "ok")
			o.Last(topic, others+want, kafkatest.Find(t, o.Take(kafkago.Library, 1), trace.SpanKindProducer))
		}
		traced("-", "last=;TRACEPARENT")
		traced(own, "traceparent="+own+";last=")
		traced("+"+own, "traceparent="+own+";traceparent="+own+";last=")
		traced("invalid", "traceparent=invalid;last=")
		o.Missing(0)

		o.Broker.Command("fail 87 1")
		o.Expect(kafkago.Library, "send "+topic+" 1", "failed", sent("letters", " key=key0 error=INVALID_RECORD"))
		linked("send "+topic+" 1", topic, 1, 260, 1)

		retried := o.Topic("retried", 1)
		o.Broker.Command("fail 6 1")
		linked("retried "+retried+" 30", retried, 1, 0, 30)

		other := o.Topic("parcels", 1)
		o.Chain(kafkago.Library, "relay "+crowd+" "+other+" 20", "190", other, 20)
		o.Missing(0)
		o.Carries(kafkago.Library, "0", func(from, to string) string { return "relay " + from + " " + to + " 1" })
		o.Complete()
	})
}
