package kafkago_test

import (
	"fmt"

	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/internal/spans/kafkago"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

var versions = []kafkatest.Version{
	{Name: "0.4.1", Release: "1.19.13", Tags: "kafka0.4.1"},
	{Name: "0.4.28", Release: "1.19.13"},
	{Name: "0.4.51", Release: "1.23.12"},
}

func each(t *testing.T, test func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed)) {
	kafkatest.Each(t, "courier", "kafka", versions, test)
}

// sent returns messages that were sent with one call.
func sent(topic, more string) string {
	return "producer send " + topic + " at broker client=courier" + more
}

// stored returns a message that was sent alone, to a topic with one partition.
func stored(v kafkatest.Version, topic string, offset int, more string) string {
	if v.Name != versions[len(versions)-1].Name {
		return sent(topic, more)
	}
	return sent(topic, fmt.Sprintf(" partition=0 offset=%d%s", offset, more))
}

// received returns a message of a topic with one partition.
func received(topic, group string, offset int, more string) string {
	if group != "" {
		group = " group=" + group
	}
	return fmt.Sprintf("consumer process %s at broker client=courier%s partition=0 offset=%d%s", topic, group, offset, more)
}

// TestSend sends messages.
func TestSend(t *testing.T) {
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		expect := func(command, answer string, want ...string) []*spans.Span {
			t.Helper()
			return o.Expect(kafkago.Library, command, answer, want...)
		}
		topic, wide := o.Topic("letters", 1), o.Topic("wide", 4)
		expect("send "+topic+" 1", "ok", stored(v, "letters", 0, " key=key0"))
		expect("send "+topic+" 200", "ok", sent("letters", " count=200"))
		expect("send "+wide+" 400", "ok", sent("wide", " count=400"))
		expect("many "+topic+" 2", "ok", stored(v, "letters", 201, " key=key0"), stored(v, "letters", 202, " key=key1"))
		expect("async "+topic+" 20", "ok", sent("letters", " count=20"))
		expect("async "+topic+" 1", "ok", stored(v, "letters", 223, " key=key0"))
		expect("async "+wide+" 1000", "ok", sent("wide", " count=1000"))
		expect("empty "+topic, "ok")
		expect("erase "+topic, "ok", stored(v, "letters", 224, " tombstone=true"))
		expect("expired "+o.Topic("late", 1), "failed", stored(v, "late", 0, " key=key0"), sent("late", " key=key0 error=*errors.errorString"))
		expect("closed "+topic, "failed", sent("letters", " key=key0 error=*errors.errorString"))
		expect("inside "+topic, "ok", stored(v, "letters", 225, " key=key0 in server by goroutine"))
		expect("pooled "+topic, "ok", stored(v, "letters", 226, " key=key0 in server by context"))
		expect("refused", "failed", "producer send letters at 127.0.0.1:1 client=courier key=key0 error=*net.OpError")
		o.Stored(topic, 227)
		o.Stored(wide, 1400)
		o.Broker.Command("fail 87 1")
		expect("send "+topic+" 1", "failed", sent("letters", " key=key0 error=INVALID_RECORD"))
		o.Broker.Command("fail 10 4")
		expect("send "+wide+" 30", "failed", sent("wide", " count=30 error=MESSAGE_TOO_LARGE"))
		o.Broker.Command("fail 87 4")
		lost := " count=30 error=INVALID_RECORD"
		if v.Name != versions[len(versions)-1].Name {
			lost = " count=30"
		}
		expect("async "+wide+" 30", "ok", sent("wide", lost))
		if v.Name != versions[0].Name {
			other := o.Topic("parcels", 1)
			expect("mixed "+topic+" "+other, "ok", "producer send at broker client=courier count=2")
			expect("mixed "+topic+" "+topic, "ok", sent("letters", " count=2"))
			o.Stored(other, 1)
		}
		o.Complete()
	})
}

// TestReceive receives messages.
func TestReceive(t *testing.T) {
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		expect := func(command, answer string, want ...string) []*spans.Span {
			t.Helper()
			return o.Expect(kafkago.Library, command, answer, want...)
		}
		topic, other := o.Topic("letters", 1), o.Topic("parcels", 1)
		expect("send "+topic+" 3", "ok", sent("letters", " count=3"))
		expect("erase "+topic, "ok", stored(v, "letters", 3, " tombstone=true"))
		all := func(group string) []string {
			return []string{received("letters", group, 0, " key=key0"), received("letters", group, 1, " key=key1"), received("letters", group, 2, " key=key2"),
				received("letters", group, 3, " tombstone=true")}
		}
		for _, s := range expect("read "+topic+" 4", "6", all("")...) {
			if w := s.Work; w == nil || w.Own.Total().Nanoseconds() != s.End-s.Start || w.Uncertain {
				t.Errorf("%+v of %d ns", w, s.End-s.Start)
			}
		}
		expect("group readers "+topic+" 2", "1", all("readers")[:2]...)
		expect("group readers "+topic+" 2", "5", all("readers")[2:]...) // the offsets of the others are committed
		expect("fetch fetchers "+topic+" 4", "6", all("fetchers")...)
		expect("ended "+topic, "2")

		inside := func(offset int) string {
			return received("letters", "", offset, fmt.Sprintf(" key=key%d", offset))
		}
		list := expect("relay "+topic+" "+other+" 3", "3", inside(0), inside(1), inside(2), stored(v, "parcels", 0, " in consumer by goroutine"),
			stored(v, "parcels", 1, " in consumer by goroutine"), stored(v, "parcels", 2, " in consumer by goroutine"))
		parents := map[trace.SpanID]bool{}
		for _, s := range list {
			if s.Kind == trace.SpanKindProducer {
				parents[s.Parent.SpanID()] = true
			}
		}
		if len(parents) != 3 {
			t.Errorf("the messages that were sent have %d parents, want 3", len(parents))
		}
		o.Stored(other, 3)
		o.Complete()
	})
}

// TestParents receives messages with headers.
func TestParents(t *testing.T) {
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		topic := o.Topic("letters", 1)
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		for i, header := range []string{"-", parent, "+" + parent, "invalid", parent[:54]} {
			o.Expect(kafkago.Library, "traced "+topic+" "+header, "ok", stored(v, "letters", i, ""))
		}
		of := received("letters", "", 1, " of b7ad6b7169203331")
		for _, s := range o.Expect(kafkago.Library, "read "+topic+" 5", "10", received("letters", "", 0, ""), of, received("letters", "", 2, ""),
			received("letters", "", 3, ""), received("letters", "", 4, "")) {
			if s.Rule == spans.RuleHeader && (s.Context.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || !s.Context.IsSampled()) {
				t.Errorf("%+v", s.Context)
			}
		}
		o.Complete()
	})
}

// TestLoad sends and receives messages on several goroutines.
func TestLoad(t *testing.T) {
	const goroutines, rounds = 50, 20
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		topic := o.Topic("letters", 1)
		const all = goroutines * rounds
		o.Expect(kafkago.Library, fmt.Sprintf("load %s %d %d", topic, goroutines, rounds), "ok",
			kafkatest.Repeat(all, func(i int) string { return stored(v, "letters", i, " key=key0") })...)
		o.Stored(topic, all)
		by := map[uint64]int{}
		for _, s := range o.Expect(kafkago.Library, fmt.Sprintf("crowd %s %d %d", topic, goroutines, rounds), "ok",
			kafkatest.Repeat(all, func(i int) string { return received("letters", "", i, " key=key0") })...) {
			by[s.G]++
		}
		if len(by) != goroutines {
			t.Errorf("messages of %d goroutines, want %d", len(by), goroutines)
		}
		o.Complete()
	})
}

// TestPlan finds the places of all probes in executables.
func TestPlan(t *testing.T) {
	kafkatest.Plan(t, "courier", "kafka", versions, func(kafkatest.Version) *probe.Set { return kafkago.New(join.NewTracker(join.Options{}), nil) },
		func(v kafkatest.Version, arch string) []string {
			var missing []string
			if v.Name != versions[len(versions)-1].Name {
				missing = append(missing, "join", "written")
			}
			if v.Name == versions[0].Name && arch == testtarget.ARM64 {
				missing = append(missing, "fetched", "read")
			}
			if v.Name != versions[len(versions)-1].Name {
				missing = append(missing, "produce", "record", "recorded")
			}
			return missing
		})
}
