package kafka_test

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/spans/franz"
	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/internal/spans/kafkago"
	"github.com/loupe-go/loupe/internal/spans/sarama"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestChain passes a message through three stripped services, each with another client of Kafka: its spans are one trace.
func TestChain(t *testing.T) {
	broker := kafkatest.Broker(t)
	start := func(program, mod string) *kafkatest.Observed {
		return kafkatest.Propagating(t, testtarget.Spec{Program: program, Flags: "-modfile=" + mod + ".mod", Stripped: true}, broker)
	}
	first, second, third := start("mailer", "sarama-1.61.1"), start("envoy", "franz-1.22.3"), start("courier", "kafka-0.4.51")
	a, b := first.Topic("a", 1), first.Topic("b", 1)
	first.Do("inside "+a, "ok") // sends two messages
	second.Do("relay "+a+" "+b+" 2", "1")
	third.Do("read "+b+" 2", "1")
	sent, relayed, read := first.Take(sarama.IBM, 2), second.Take(franz.Library, 4), third.Take(kafkago.Library, 2)
	for _, o := range []*kafkatest.Observed{first, second, third} {
		o.Missing(0)
		o.Complete()
	}

	byID := map[trace.SpanID]*spans.Span{}
	for _, list := range [][]*spans.Span{sent, relayed, read} {
		for _, s := range list {
			byID[s.Context.SpanID()] = s
		}
	}
	ends := 0
	for _, s := range read {
		if s.Kind != trace.SpanKindConsumer {
			continue
		}
		ends++
		kinds := ""
		for at := s; at != nil; at = byID[at.Parent.SpanID()] {
			if at.Context.TraceID() != s.Context.TraceID() {
				t.Errorf("%+v is not in the trace of %+v", at, s)
			}
			kinds += at.Kind.String() + " "
			if !at.Parent.IsValid() {
				break
			}
		}
		if want := "consumer producer consumer producer server client "; kinds != want {
			t.Errorf("a message was passed by %q, want %q", kinds, want)
		}
	}
	if ends != 2 {
		t.Errorf("%d messages were read, want 2", ends)
	}
}
