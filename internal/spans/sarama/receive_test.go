package sarama_test

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/internal/testtarget"
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

// TestReceive receives messages with the oldest version and several Go releases, and the newest one. Those between have the same functions: see
// TestPlan.
func TestReceive(t *testing.T) {
	newest := versions[len(versions)-1]
	newest.Release = testtarget.Latest()
	list := []kafkatest.Version{versions[0], newest}
	eachOf(t, list, func(t *testing.T, o *kafkatest.Observed, expect expectFunc) {
		t.Run("group", func(t *testing.T) { testGroup(o, expect) })
		t.Run("work", func(t *testing.T) { testWork(t, o, expect) })
		t.Run("partitions", func(t *testing.T) { testPartitions(t, o, expect) })
		t.Run("rebalance", func(t *testing.T) { testRebalance(t, o, expect) })
		t.Run("parents", func(t *testing.T) { testParents(o, expect) })
	})
}

// testGroup receives messages as a member of a group.
func testGroup(o *kafkatest.Observed, expect expectFunc) {
	topic := o.Topic("letters", 1)
	expect("send "+topic+" 5", "ok", stored("letters", 0, 5, "")...)
	group := func(command, kind string) string {
		return fmt.Sprintf("%s %s %s %s", command, kind, o.Name(kind), topic)
	}
	for _, kind := range []string{"range", "select", "call", "drop"} {
		expect(group("group", kind)+" 5", "ok", received("consumer process", "letters", kind, 0, 5, "")...)
	}
	expect(group("group", "hidden")+" 5", "ok", received("client receive", "letters", "hidden", 0, 5, "")...)
	expect(group("group", "hand")+" 5", "ok", received("consumer process", "letters", "hand", 0, 5, "")...)
	expect(group("group", "crowd")+" 5", "ok", received("consumer process", "letters", "crowd", 0, 5, "")...)

	refused := fmt.Sprintf("refuse range %s %s 1", o.Name("refused"), topic)
	expect(refused, "ok", received("consumer process", "letters", "refused", 0, 1, " error=*errors.errorString")...)
	expect(group("group", "panic")+" 1", "ok", received("consumer process", "letters", "panic", 0, 1, "")...)
}

// testWork sends messages and requests while messages are processed.
func testWork(t *testing.T, o *kafkatest.Observed, expect expectFunc) {
	topic, other := o.Topic("orders", 1), o.Topic("parcels", 1)
	expect("send "+topic+" 3", "ok", stored("orders", 0, 3, "")...)
	for i, kind := range []string{"range", "select"} {
		want := received("consumer process", "orders", "work-"+kind, 0, 3, "")
		for j := range 3 {
			want = append(want, fmt.Sprintf("producer send parcels client=mailer partition=0 offset=%d key=key in consumer by goroutine", 3*i+j))
		}
		all := expect(fmt.Sprintf("forward %s %s %s %s 3", kind, o.Name("work-"+kind), topic, other), "ok", want...)
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
	all := expect(fmt.Sprintf("visit select %s %s 3", o.Name("visit"), topic), "ok", received("consumer process", "orders", "visit", 0, 3, "")...)
	for _, s := range all {
		sum := int64(0)
		for _, d := range s.Work.Own {
			sum += int64(d)
		}
		if s.Work.Uncertain || sum != s.End-s.Start {
			t.Errorf("the work of %+v is %+v", s, s.Work)
		}
	}
}

// testPartitions receives messages of several partitions.
func testPartitions(t *testing.T, o *kafkatest.Observed, expect expectFunc) {
	const partitions, messages = 4, 25
	topic := o.Topic("wide", partitions)
	o.Broker.Command(fmt.Sprintf("fill %s %d", topic, messages))
	var direct, grouped []string
	for p := range partitions {
		for i := range messages {
			more := fmt.Sprintf("partition=%d offset=%d key=key%d", p, i, i)
			direct = append(direct, "client receive wide client=mailer "+more)
			grouped = append(grouped, "consumer process wide client=mailer group=all "+more)
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
}

// testRebalance receives messages as two members of a group, the second of which joins between.
func testRebalance(t *testing.T, o *kafkatest.Observed, expect expectFunc) {
	const partitions, messages = 4, 10
	topic := o.Topic("shared", partitions)
	want := kafkatest.Repeat(2*partitions*messages, func(i int) string {
		offset := i / partitions
		return fmt.Sprintf("consumer process shared client=mailer group=members partition=%d offset=%d key=key%d", i%partitions, offset, offset%messages)
	})
	o.Broker.Command(fmt.Sprintf("fill %s %d", topic, messages))
	o.Do(fmt.Sprintf("join %s %s 0", o.Name("members"), topic), "ok")
	o.Do(fmt.Sprintf("join %s %s %d", o.Name("members"), topic, partitions*messages), "ok")
	o.Broker.Command(fmt.Sprintf("fill %s %d", topic, messages))
	by := map[uint64]int{}
	for _, s := range expect(fmt.Sprintf("leave %d", len(want)), fmt.Sprint(len(want)), want...) {
		by[s.G]++
	}
	if len(by) <= partitions {
		t.Errorf("messages of %d goroutines, want more than %d", len(by), partitions)
	}
}

// testParents receives messages with headers.
func testParents(o *kafkatest.Observed, expect expectFunc) {
	const (
		id      = "b7ad6b7169203331"
		parent  = "00-0af7651916cd43dd8448eb211c80319c-" + id + "-01"
		invalid = "00-00000000000000000000000000000000-" + id + "-01"
	)
	topic := o.Topic("traced", 1)
	headers := []string{"-", parent, "+" + parent, "invalid", parent[:54], invalid}
	for i, header := range headers {
		expect(fmt.Sprintf("traced %s %s", topic, header), "ok", fmt.Sprintf("producer send traced client=mailer partition=0 offset=%d", i))
	}
	want := func(span, group string) []string {
		return kafkatest.Repeat(len(headers), func(i int) string {
			text := fmt.Sprintf("%s traced client=mailer%s partition=0 offset=%d", span, group, i)
			if i == 1 {
				text += " of " + id
			}
			return text
		})
	}
	expect(fmt.Sprintf("group range %s %s %d", o.Name("traced"), topic, len(headers)), "ok", want("consumer process", " group=traced")...)
	expect(fmt.Sprintf("partitions %s 1 %d", topic, len(headers)), "15", want("client receive", "")...)
}

// TestChain forwards messages that carry contexts.
func TestChain(t *testing.T) {
	list := []kafkatest.Version{versions[1], versions[len(versions)-1]}
	kafkatest.EachPropagating(t, "mailer", "sarama", list, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		library := library(v)
		topic := o.Topic("letters", 1)
		o.Linked(library, "send "+topic+" 20", "ok", topic, 20, 0, 20)
		for _, kind := range []string{"range", "select", "call"} {
			other := o.Topic("parcels-"+kind, 1)
			o.Chain(library, fmt.Sprintf("forward %s %s %s %s 20", kind, o.Name(kind), topic, other), "ok", other, 20)
		}
		o.Missing(0)
		o.Do(fmt.Sprintf("forward hand %s %s %s 20", o.Name("hand"), topic, o.Topic("parcels-hand", 1)), "ok")
		for _, s := range o.Take(library, 40) { // other goroutines have processed the messages
			if s.Kind == trace.SpanKindProducer && s.Parent.IsValid() {
				t.Errorf("%v has the parent %v", s, s.Parent)
			}
		}
		o.Carries(library, "ok", func(from, to string) string {
			return fmt.Sprintf("forward range %s %s %s 1", o.Name("group-"+from), from, to)
		})
		o.Complete()
	})
}
