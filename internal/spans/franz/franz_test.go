package franz_test

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/franz"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/spans"
)

var versions = []kafkatest.Version{
	{Name: "1.0.0", Release: "1.19.13"},
	{Name: "1.14.0", Release: "1.19.13"},
	{Name: "1.22.3", Release: "1.26.11"},
}

// An expectFunc executes a command, compares its answer and its spans, and returns these.
type expectFunc func(command, answer string, want ...string) []*spans.Span

// each runs a test with a function that executes a command and compares its answer and its spans.
func each(t *testing.T, test func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc)) {
	kafkatest.Each(t, "envoy", "franz", versions, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		test(t, v, o, func(command, answer string, want ...string) []*spans.Span {
			o.Helper()
			return o.Expect(franz.Library, command, answer, want...)
		})
		o.Complete()
	})
}

// sent returns a record that was sent.
func sent(topic, more string) string {
	return "producer send " + topic + " at broker client=envoy" + more
}

// stored returns a record that was sent to a topic with one partition.
func stored(topic string, offset int, more string) string {
	return sent(topic, fmt.Sprintf(" partition=0 offset=%d%s", offset, more))
}

// received returns records that were received with one call.
func received(topic, group, more string) string {
	if group != "" {
		group = " group=" + group
	}
	return "consumer process" + topic + " at broker client=envoy" + group + more
}

// one returns a record that was received alone, of a topic with one partition.
func one(topic, group string, offset int, more string) string {
	return received(" "+topic, group, fmt.Sprintf(" partition=0 offset=%d%s", offset, more))
}

// TestSend sends records.
func TestSend(t *testing.T) {
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", 1)
		expect("send "+topic+" 1", "ok", stored("letters", 0, " key=key0"))
		expect("send "+topic+" 3", "ok", stored("letters", 1, " key=key0"), stored("letters", 2, " key=key1"), stored("letters", 3, " key=key2"))
		expect("async "+topic+" 2", "ok", stored("letters", 4, " key=key0"), stored("letters", 5, " key=key1"))
		expect("default "+topic+" 2", "ok", stored("letters", 6, " key=key0"), stored("letters", 7, " key=key1"))
		expect("erase "+topic, "ok", stored("letters", 8, " tombstone=true"))
		expect("inside "+topic, "ok", stored("letters", 9, " key=key0 in server by goroutine"))
		expect("pooled "+topic, "ok", stored("letters", 10, " key=key0 in server by context"))
		o.Stored(topic, 11)
		o.Broker.Command("fail 87 2") // the records may be sent with one request or with two
		expect("send "+topic+" 2", "failed", sent("letters", " key=key0 error=INVALID_RECORD"), sent("letters", " key=key1 error=INVALID_RECORD"))
		o.Broker.Command("fail 87 0")
		expect("closed "+topic, "failed", sent("letters", " key=key0 error=*errors.errorString"))
		if v.Name == versions[0].Name {
			expect("nowhere", "failed")
		} else {
			expect("nowhere", "failed", "producer send at broker client=envoy tombstone=true error=*errors.errorString")
		}
		if v.Name == versions[len(versions)-1].Name { // v1.14.0 waits for ever
			expect("expired "+topic, "failed", sent("letters", " key=key0 error=*errors.errorString"))
		}
	})
}

// TestReceive receives records.
func TestReceive(t *testing.T) {
	each(t, func(t *testing.T, _ kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic, other, wide := o.Topic("letters", 1), o.Topic("parcels", 1), o.Topic("wide", 8)
		expect("send "+topic+" 3", "ok", stored("letters", 0, " key=key0"), stored("letters", 1, " key=key1"), stored("letters", 2, " key=key2"))
		expect("erase "+topic, "ok", stored("letters", 3, " tombstone=true"))
		all := func(group string) []string {
			return []string{one("letters", group, 0, " key=key0"), one("letters", group, 1, " key=key1"), one("letters", group, 2, " key=key2"),
				one("letters", group, 3, " tombstone=true")}
		}
		for _, s := range expect("read "+topic+" 4", "6", all("")...) {
			if w := s.Work; w == nil || w.Own.Total().Nanoseconds() != s.End-s.Start || w.Uncertain {
				t.Errorf("%+v of %d ns", w, s.End-s.Start)
			}
		}
		expect("group readers "+topic+" 2", "1", all("readers")[:2]...)
		expect("group readers "+topic+" 2", "5", all("readers")[2:]...) // the offsets of the others are committed
		for i := range 40 {                                             // what arrives while a client is being closed is dropped, unless the client has it already
			o.ExpectOneOf(franz.Library, fmt.Sprintf("ended %s %d", topic, i*50), map[string][]string{"0": nil, "4": {received(" letters", "", " count=4 partition=0")}})
		}

		list := expect("relay "+topic+" "+other+" 3", "3", append(all("")[:3], stored("parcels", 0, " in consumer by goroutine"),
			stored("parcels", 1, " in consumer by goroutine"), stored("parcels", 2, " in consumer by goroutine"))...)
		parents := map[trace.SpanID]bool{}
		for _, s := range list {
			if s.Kind == trace.SpanKindProducer {
				parents[s.Parent.SpanID()] = true
			}
		}
		if len(parents) != 3 {
			t.Errorf("the records that were sent have %d parents, want 3", len(parents))
		}

		expect("poll 4 "+topic, "1 4", received(" letters", "", " count=4 partition=0"))
		o.Do("send "+wide+" 50", "ok")
		o.Do("send "+wide+" 50", "ok")
		o.Await(franz.Library, 100)
		o.Stored(wide, 100)
		expect("poll 100 "+wide, "1 100", received(" wide", "", " count=100"))
		expect("poll 107 "+topic+" "+other+" "+wide, "1 107", received("", "", " count=107"))
	})
}

// TestParents receives records with headers.
func TestParents(t *testing.T) {
	const (
		id      = "b7ad6b7169203331"
		parent  = "00-0af7651916cd43dd8448eb211c80319c-" + id + "-01"
		invalid = "00-00000000000000000000000000000000-" + id + "-01"
	)
	each(t, func(t *testing.T, _ kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", 1)
		next := 0
		for _, header := range []string{"-", parent, "+" + parent, "invalid", parent[:54], invalid} {
			expect(fmt.Sprintf("traced %s %s 1", topic, header), "ok", stored("letters", next, ""))
			next++
		}
		expect("read "+topic+" 6", "15", one("letters", "", 0, ""), one("letters", "", 1, " of "+id), one("letters", "", 2, ""), one("letters", "", 3, ""),
			one("letters", "", 4, ""), one("letters", "", 5, ""))
		expect("poll 6 "+topic, "1 6", received(" letters", "", " count=6 partition=0 link="+id))
		links := ""
		for range 64 {
			links += " link=" + id
		}
		searched := func(want uint64) {
			t.Helper()
			if c, err := o.SpanCounts(); err != nil || c.Unsearched != want {
				t.Errorf("%d spans may have links that are missing, want %d (%v)", c.Unsearched, want, err)
			}
		}
		searched(0)
		many := o.Topic("parcels", 1)
		expect("traced "+many+" "+parent+" 70", "ok", kafkatest.Repeat(70, func(i int) string { return stored("parcels", i, "") })...)
		expect("poll 70 "+many, "1 70", received(" parcels", "", " count=70 partition=0"+links))
		searched(1)
	})
}

// TestLoad sends records on several goroutines.
func TestLoad(t *testing.T) {
	const goroutines, rounds = 50, 20
	each(t, func(t *testing.T, _ kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", 1)
		const all = goroutines * rounds
		by := map[uint64]int{}
		for _, s := range expect(fmt.Sprintf("load %s %d %d", topic, goroutines, rounds), "ok",
			kafkatest.Repeat(all, func(i int) string { return stored("letters", i, " key=key0") })...) {
			by[s.G]++
		}
		if len(by) != goroutines {
			t.Errorf("records of %d goroutines, want %d", len(by), goroutines)
		}
		o.Stored(topic, all)
	})
}

// TestPlan finds the places of all probes in executables.
func TestPlan(t *testing.T) {
	kafkatest.Plan(t, "envoy", "franz", versions, func(kafkatest.Version) *probe.Set { return franz.New(join.NewTracker(join.Options{}), nil) },
		func(kafkatest.Version, string) []string { return nil })
}
