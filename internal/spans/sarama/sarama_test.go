package sarama_test

import (
	"fmt"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafka/kafkatest"
	"github.com/loupe-go/loupe/internal/spans/sarama"
	"github.com/loupe-go/loupe/spans"
)

var versions = []kafkatest.Version{
	{Name: "shopify-1.19.0", Release: "1.19.13", Tags: "shopify"},
	{Name: "shopify-1.38.1", Release: "1.19.13", Tags: "shopify"},
	{Name: "1.40.1", Release: "1.19.13"},
	{Name: "1.45.2", Release: "1.23.12"},
	{Name: "1.61.1", Release: "1.26.11"},
}

// library returns the path of the module.
func library(v kafkatest.Version) string {
	if v.Tags == "shopify" {
		return sarama.Shopify
	}
	return sarama.IBM
}

// An expectFunc executes a command, compares its answer and its spans, and returns these.
type expectFunc func(command, answer string, want ...string) []*spans.Span

// each runs a test with a function that executes a command and compares its answer and its spans.
func each(t *testing.T, test func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc)) {
	kafkatest.Each(t, "mailer", "sarama", versions, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		test(t, v, o, expecting(o, library(v)))
		o.Complete()
	})
}

// eachOf does the same with some versions.
func eachOf(t *testing.T, list []kafkatest.Version, test func(t *testing.T, o *kafkatest.Observed, expect expectFunc)) {
	kafkatest.Each(t, "mailer", "sarama", list, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed) {
		test(t, o, expecting(o, library(v)))
		o.Complete()
	})
}

// expecting returns a function that executes a command and compares its answer and its spans.
func expecting(o *kafkatest.Observed, library string) expectFunc {
	return func(command, answer string, want ...string) []*spans.Span {
		o.Helper()
		return o.Expect(library, command, answer, want...)
	}
}

// stored returns messages that were sent to a topic with one partition, from an offset on.
func stored(topic string, offset, n int, more string) []string {
	return kafkatest.Repeat(n, func(i int) string {
		return fmt.Sprintf("producer send %s client=mailer partition=0 offset=%d key=key%d%s", topic, offset+i, i, more)
	})
}

// TestSend sends messages.
func TestSend(t *testing.T) {
	each(t, func(t *testing.T, v kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", 1)
		next := 0
		send := func(command string, n int, more string) {
			expect(command, "ok", stored("letters", next, n, more)...)
			next += n
		}
		send("one "+topic+" 1", 1, "")
		send("send "+topic+" 3", 3, "")
		send("async "+topic+" 200", 200, "")
		send("silent "+topic+" 2", 2, "")
		send("inside "+topic, 2, " in server by goroutine")
		expect("erase "+topic, "ok", fmt.Sprintf("producer send letters client=mailer partition=0 offset=%d tombstone=true", next))
		expect("mute "+topic, "ok", "producer send letters client=mailer partition=0 key=key0")
		tooLarge := "sarama.ConfigurationError"
		if v.Tags == "shopify" || v.Name == "1.40.1" {
			tooLarge = "MESSAGE_TOO_LARGE"
		}
		expect("large "+topic, "failed", "producer send letters client=mailer key=large error="+tooLarge)
		o.Broker.Command("fail 87 1")
		expect("one "+topic+" 1", "failed", "producer send letters client=mailer key=key0 error=INVALID_RECORD")
		o.Broker.Command("fail 3 2") // the messages may be sent with one request or with two
		expect("send "+topic+" 2", "failed", "producer send letters client=mailer key=key0 error=UNKNOWN_TOPIC_OR_PARTITION",
			"producer send letters client=mailer key=key1 error=UNKNOWN_TOPIC_OR_PARTITION")
		o.Broker.Command("fail 3 0")
		missing := "UNKNOWN_TOPIC_OR_PARTITION"
		if v.Name == versions[len(versions)-1].Name {
			missing = "*errors.joinError"
		}
		expect("one "+topic+"-missing 1", "failed", "producer send letters-missing client=mailer key=key0 error="+missing)
		o.Stored(topic, next+2)
	})
}

// TestLoad sends messages on several goroutines.
func TestLoad(t *testing.T) {
	const goroutines, rounds = 50, 20
	each(t, func(t *testing.T, _ kafkatest.Version, o *kafkatest.Observed, expect expectFunc) {
		topic := o.Topic("letters", 1)
		const all = goroutines * rounds
		by := map[uint64]int{}
		for _, s := range expect(fmt.Sprintf("load %s %d %d", topic, goroutines, rounds), "ok",
			kafkatest.Repeat(all, func(i int) string { return stored("letters", i, 1, "")[0] })...) {
			by[s.G]++
		}
		if len(by) != goroutines {
			t.Errorf("messages of %d goroutines, want %d", len(by), goroutines)
		}
		o.Stored(topic, all)
	})
}

// TestPlan finds the places of all probes in executables.
func TestPlan(t *testing.T) {
	kafkatest.Plan(t, "mailer", "sarama", versions, func(v kafkatest.Version) *probe.Set {
		return sarama.New(join.NewTracker(join.Options{}), nil, library(v))
	}, func(v kafkatest.Version, _ string) []string {
		missing := []string{"all_failed"}
		switch v.Name {
		case versions[len(versions)-1].Name:
			missing = []string{"failed"}
		case versions[0].Name:
			missing = []string{"all_failed", "overflow"}
		}
		return append(missing, "taken3?", "taken4?", "taken5?", "chosen2?", "chosen3?") // frames differ between Go releases
	})
}
