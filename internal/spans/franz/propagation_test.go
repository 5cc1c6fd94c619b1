package franz_test

import (
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/spans/franz"
	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/spans"
)

// TestPropagation sends records that carry contexts. Another client receives them.
func TestPropagation(t *testing.T) {
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	kafkatest.EachPropagating(t, "envoy", "franz", versions, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		linked := func(command, topic string, sent, old, n int) []*spans.Span {
			t.Helper()
			return o.Linked(franz.Library, command, "ok", topic, sent, old, n)
		}
		topic, wide := o.Topic("letters", 1), o.Topic("wide", 4)
		linked("send "+topic+" 1", topic, 1, 0, 1)
		linked("send "+topic+" 250", topic, 250, 1, 250)
		linked("async "+wide+" 1000", wide, 1000, 0, 1000)
		linked("default "+topic+" 10", topic, 10, 251, 10)
		linked("erase "+topic, topic, 1, 261, 1)
		all := linked("inside "+topic, topic, 1, 262, 1)
		server, producer := kafkatest.Find(t, all, trace.SpanKindServer), kafkatest.Find(t, all, trace.SpanKindProducer)
		if producer.Parent.SpanID() != server.Context.SpanID() || producer.Context.TraceID() != server.Context.TraceID() {
			t.Errorf("a record that was sent in %v has parent %v", server.Context, producer.Parent)
		}
		crowd := o.Topic("crowd", 1)
		linked("load "+crowd+" 50 20", crowd, 1000, 0, 1000)
		o.Missing(0)

		others := "first=1;traceparenT=;=;"
		traced := func(header, want string) {
			t.Helper()
			o.Do("traced "+topic+" "+header+" 1", "ok")
			o.Last(topic, others+want, kafkatest.Find(t, o.Take(franz.Library, 1), trace.SpanKindProducer))
		}
		traced(own, "traceparent="+own+";last=")
		traced("+"+own, "traceparent="+own+";traceparent="+own+";last=")
		traced("invalid", "traceparent=invalid;last=")
		o.Missing(0)
		traced("-", "last=") // the program has other headers
		o.Missing(1)

		o.Broker.Command("fail 87 1")
		o.Expect(franz.Library, "send "+topic+" 1", "failed", sent("letters", " key=key0 error=INVALID_RECORD"))
		linked("send "+topic+" 1", topic, 1, 267, 1)
		o.Broker.Command("fail 6 1")
		linked("retried "+topic+" 30", topic, 30, 268, 30)
		o.Expect(franz.Library, "expired "+topic, "failed", sent("letters", " key=key0 error=*errors.errorString"))
		o.Chain(franz.Library, "relay "+crowd+" "+o.Topic("parcels", 1)+" 20", "190", o.Name("parcels"), 20)
		o.Missing(1)
		o.Carries(franz.Library, "0", func(from, to string) string { return "relay " + from + " " + to + " 1" })
		o.Complete()
	})
}

// TestPropagationHeld ends the observation while records are buffered. They are sent with their headers later.
func TestPropagationHeld(t *testing.T) {
	header := regexp.MustCompile(`^key\d+\|value\|traceparent=00-[0-9a-f]{32}-[0-9a-f]{16}-01$`)
	kafkatest.EachPropagating(t, "envoy", "franz", versions[len(versions)-1:], func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		const n = 1001
		topic := o.Topic("held", 4)
		o.Do("hold "+topic+" 1000", "ok")
		o.KeepsLoans = true
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(o.Log.String(), "memory stays in the process") {
			t.Errorf("nothing says that memory stays in the process: %q", o.Log.String())
		}
		if !o.Lent() {
			t.Error("the memory with the headers is gone")
		}
		o.Do("flush", "ok")
		records := o.Records(topic)
		if len(records) != n {
			t.Errorf("the broker has %d records, want %d", len(records), n)
		}
		for _, r := range records {
			if !header.MatchString(r) {
				t.Fatalf("a record is %q", r)
			}
		}
	})
}

// TestPropagationExit ends a program that has buffered records. Its memory is gone, so nothing says that some of it stays.
func TestPropagationExit(t *testing.T) {
	kafkatest.EachPropagating(t, "envoy", "franz", versions[len(versions)-1:], func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		o.Do("hold "+o.Topic("held", 4)+" 1000", "ok")
		o.Kill()
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if strings.Contains(o.Log.String(), "memory stays in the process") {
			t.Errorf("the program has exited: %q", o.Log.String())
		}
	})
}
