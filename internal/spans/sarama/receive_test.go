package sarama_test

import (
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
)

// received returns messages that were received, of a topic with one partition, from an offset on.
func received(span, topic, group string, offset, n int, more string) []string {
	if group != "" {
		group = " group=" + group
	}
	return kafkatest.Repeat(n, func(i int) string {
		return fmt.Sprintf("%s %s client=mailer%s partition=0 offset=%d key=key%d%s", span, topic, group, offset+i, i, more)
	})
}

// TestGroup receives messages as a member of a group.
func TestGroup(t *testing.T) {
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", 1)
		expect("send "+topic+" 5", "ok", stored("letters", 0, 5, "")...)
		group := func(command, kind string) string {
			return fmt.Sprintf("%s %s %s %s", command, kind, o.Name(kind), topic)
		}
		for _, kind := range []string{"range", "select", "call"} {
			expect(group("group", kind)+" 5", "ok", received("consumer process", "letters", kind, 0, 5, "")...)
		}
		expect(group("group", "hidden")+" 5", "ok", received("client receive", "letters", "hidden", 0, 5, "")...)
		expect(group("group", "hand")+" 5", "ok", received("consumer process", "letters", "hand", 0, 5, "")...)
		expect(group("group", "crowd")+" 5", "ok", received("consumer process", "letters", "crowd", 0, 5, "")...)

		refused := fmt.Sprintf("%s range %s %s 1", "refuse", o.Name("refused"), topic)
		expect(refused, "ok", received("consumer process", "letters", "refused", 0, 1, " error=*errors.errorString")...)
		expect(group("group", "panic")+" 1", "ok", received("consumer process", "letters", "panic", 0, 1, "")...)

	})
}

// TestWork sends messages and requests while messages are processed.
func TestWork(t *testing.T) {
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic, other := o.Topic("letters", 1), o.Topic("parcels", 1)
		expect("send "+topic+" 3", "ok", stored("letters", 0, 3, "")...)
		for i, kind := range []string{"range", "select"} {
			want := received("consumer process", "letters", kind, 0, 3, "")
			for j := range 3 {
				want = append(want, fmt.Sprintf("producer send parcels client=mailer partition=0 offset=%d key=key in consumer by goroutine", 3*i+j))
			}
			all := expect(fmt.Sprintf("forward %s %s %s %s 3", kind, o.Name(kind), topic, other), "ok", want...)
			parents := map[trace.SpanID]bool{}
			for _, s := range all {
				if s.Kind == trace.SpanKindProducer {
					parents[s.Parent.SpanID()] = true
				}
			}
			if len(parents) != 3 {
				t.Errorf("%d messages were forwarded, want 3", len(parents))
			}
		}
		all := expect(fmt.Sprintf("visit select %s %s 3", o.Name("visit"), topic), "ok", received("consumer process", "letters", "visit", 0, 3, "")...)
		for _, s := range all {
			sum := int64(0)
			for _, d := range s.Work.Own {
				sum += int64(d)
			}
			if s.Work.Uncertain || sum != s.End-s.Start {
				t.Errorf("the work of %+v is %+v", s, s.Work)
			}
		}
	})
}

// TestPartitions receives messages of several partitions.
func TestPartitions(t *testing.T) {
	const partitions, messages = 4, 25
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", partitions)
		o.Broker.Command(fmt.Sprintf("fill %s %d", topic, messages))
		var direct, grouped []string
		for p := range partitions {
			for i := range messages {
				more := fmt.Sprintf("partition=%d offset=%d key=key%d", p, i, i)
				direct = append(direct, "client receive letters client=mailer "+more)
				grouped = append(grouped, "consumer process letters client=mailer group=all "+more)
			}
		}
		expect(fmt.Sprintf("partitions %s %d %d", topic, partitions, messages), fmt.Sprint(partitions*messages*(messages-1)/2), direct...)
		by := map[uint64]int{}
		for _, s := range expect(fmt.Sprintf("group select %s %s %d", o.Name("all"), topic, partitions*messages), "ok", grouped...) {
			by[s.G]++
		}
		if len(by) != partitions {
			t.Errorf("messages of %d goroutines, want %d", len(by), partitions)
		}
	})
}

// TestParents receives messages with headers.
func TestParents(t *testing.T) {
	const (
		id      = "b7ad6b7169203331"
		parent  = "00-0af7651916cd43dd8448eb211c80319c-" + id + "-01"
		invalid = "00-00000000000000000000000000000000-" + id + "-01"
	)
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", 1)
		headers := []string{"-", parent, "+" + parent, "invalid", parent[:54], invalid}
		for i, header := range headers {
			expect(fmt.Sprintf("traced %s %s", topic, header), "ok", fmt.Sprintf("producer send letters client=mailer partition=0 offset=%d", i))
		}
		want := func(span, group string) []string {
			return kafkatest.Repeat(len(headers), func(i int) string {
				text := fmt.Sprintf("%s letters client=mailer%s partition=0 offset=%d", span, group, i)
				if i == 1 {
					text += " of " + id
				}
				return text
			})
		}
		expect(fmt.Sprintf("group range %s %s %d", o.Name("traced"), topic, len(headers)), "ok", want("consumer process", " group=traced")...)
		expect(fmt.Sprintf("partitions %s 1 %d", topic, len(headers)), "15", want("client receive", "")...)
	})
}

// TestChain forwards messages that carry contexts.
func TestChain(t *testing.T) {
	list := slices.DeleteFunc(slices.Clone(versions), func(v kafkatest.Version) bool { return v.Name == "shopify-1.19.0" })
	kafkatest.EachPropagating(t, "mailer", "sarama", list, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		library := library(v)
		topic := o.Topic("letters", 1)
		o.Linked(library, "send "+topic+" 20", "ok", topic, 20, 0, 20)
		for _, kind := range []string{"range", "select", "call"} {
			other := o.Topic("parcels-"+kind, 1)
			o.Chain(library, fmt.Sprintf("forward %s %s %s %s 20", kind, o.Name(kind), topic, other), "ok", other, 20)
		}
		o.Missing(0)
		o.Carries(library, "ok", func(from, to string) string {
			return fmt.Sprintf("forward range %s %s %s 1", o.Name("group-"+from), from, to)
		})
		o.Complete()
	})
}
