// Package kafkatest is what the tests of the sets of probes for clients of Kafka share: a broker, and the observation of a program.
//
// The central type is [Observed].
package kafkatest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A Version is one of a client, with the oldest Go release that builds it.
type Version struct {
	Name, Release string
	Tags          string
}

// spec returns how a program is built with a version, whose file is "PREFIX-NAME.mod".
func (v Version) spec(program, prefix, release string, stripped bool) testtarget.Spec {
	return testtarget.Spec{Program: program, Go: release, Stripped: stripped, Flags: "-modfile=" + prefix + "-" + v.Name + ".mod", Tags: v.Tags}
}

// Each runs a test with each engine, each version and each build of a program. The versions are in order. Unless LOUPE_RELEASES chooses all releases, the newest version is tested with the newest release, and stripped.
func Each(t *testing.T, program, prefix string, versions []Version, test func(t *testing.T, v Version, o *Observed)) {
	broker := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "postoffice", Flags: "-modfile=kfake.mod"}))
	list := versions
	if !testtarget.Requested() {
		list = list[len(list)-1:]
		t.Log(testtarget.LeftOut + "versions other than the newest")
	}
	for _, v := range list {
		for _, b := range testtarget.Variants(t, testtarget.Since(v.Release)...) {
			spec := v.spec(program, prefix, b.Go, b.Stripped)
			spanstest.Run(t, spec, spanstest.Engines(), func(t *testing.T, engine loupe.Engine) {
				target := testtarget.Start(t, testtarget.Build(t, spec))
				test(t, v, observe(t, target, broker, loupe.Options{Engine: engine}))
			})
		}
	}
}

// Observed is a program that is observed, with a broker.
type Observed struct {
	*loupe.Session
	Broker *testtarget.Process

	// Address is that of the broker.
	Address string

	// KeepsLoans says that the program still uses memory of the probes at the end.
	KeepsLoans bool

	// Log has the warnings that the session has logged. It is complete when the session is closed.
	Log bytes.Buffer

	t      *testing.T
	target *testtarget.Process
	killed bool
	done   sync.WaitGroup
	prefix string

	mu  sync.Mutex
	all []*spans.Span
}

var topics struct {
	sync.Mutex
	n int
}

func observe(t *testing.T, target, broker *testtarget.Process, options loupe.Options) *Observed {
	t.Helper()
	topics.Lock()
	topics.n++
	o := &Observed{t: t, target: target, Broker: broker, Address: broker.Command("address"), prefix: fmt.Sprintf("t%d-", topics.n)}
	topics.Unlock()
	o.Do("broker "+o.Address, "ok")
	ctx, stop := context.WithCancel(context.Background())
	options.Spans.Handle = o.add
	options.Log = slog.New(slog.NewTextHandler(&o.Log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := loupe.Attach(ctx, loupe.PID(target.PID()), options)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	o.Session = s
	for _, w := range s.Warnings() {
		switch w.Kind {
		case event.WarnTimes, event.WarnState: // not every machine has a reliable counter, or is idle
		case event.WarnCost: // returns
		default:
			t.Errorf("warning: %s", w)
		}
	}
	o.done.Go(func() {
		for range s.Events() {
		}
	})
	t.Cleanup(func() {
		stop()
		o.done.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *Observed) add(s *spans.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, s)
}

// Topic creates a topic and returns its name.
func (o *Observed) Topic(name string, partitions int) string {
	o.Broker.Command(fmt.Sprintf("topic %s %d", o.Name(name), partitions))
	return o.Name(name)
}

// Name returns the name of a topic that Topic has created.
func (o *Observed) Name(name string) string { return o.prefix + name }

// Stored checks the number of messages that the broker has.
func (o *Observed) Stored(topic string, want int) {
	o.t.Helper()
	if got := o.Broker.Command("stored " + topic); got != strconv.Itoa(want) {
		o.t.Errorf("the broker has %s messages in %s, want %d", got, topic, want)
	}
}

// Do executes a command and compares its answer.
func (o *Observed) Do(command, answer string) {
	o.t.Helper()
	if got := o.target.Command(command); got != answer {
		o.t.Errorf("%s: answer %q, want %q", command, got, answer)
	}
}

// take waits for n spans of a library and their parents, and returns all that have ended since the last call, with those of other
// libraries.
func (o *Observed) take(n int, library string) []*spans.Span {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		o.mu.Lock()
		got, complete := 0, true
		for _, s := range o.all {
			if s.Library == library {
				got++
				complete = complete && (!within(s) || parentOf(s, o.all) != nil)
			}
		}
		if got >= n && complete || time.Now().After(end) {
			list := o.all
			o.all = nil
			o.mu.Unlock()
			return list
		}
		o.mu.Unlock()
	}
}

// Take waits for n spans of a library, and returns all that have ended.
func (o *Observed) Take(library string, n int) []*spans.Span { return o.take(n, library) }

// Helper marks the calling function as one of a test.
func (o *Observed) Helper() { o.t.Helper() }

// Await waits for n spans of a library and drops them.
func (o *Observed) Await(library string, n int) {
	o.t.Helper()
	got := 0
	for _, s := range o.take(n, library) {
		if s.Library == library {
			got++
		}
	}
	if got != n {
		o.t.Errorf("%s, want %d", english.Count(got, "span"), n)
	}
}

// Expect executes a command and compares its answer and its spans of a library, in any order.
func (o *Observed) Expect(library, command, answer string, want ...string) []*spans.Span {
	o.t.Helper()
	o.Do(command, answer)
	return o.compare(library, command, want)
}

// ExpectOneOf is Expect for a command with several answers that are right, each with its own spans.
func (o *Observed) ExpectOneOf(library, command string, want map[string][]string) {
	o.t.Helper()
	answer := o.target.Command(command)
	list, ok := want[answer]
	if !ok {
		o.t.Errorf("%s: answer %q", command, answer)
	}
	o.compare(library, command, list)
}

// compare compares the spans of a command.
func (o *Observed) compare(library, command string, want []string) []*spans.Span {
	o.t.Helper()
	all := o.take(len(want), library)
	var got []string
	var list []*spans.Span
	for _, s := range all {
		if s.Library != library {
			continue
		}
		list = append(list, s)
		got = append(got, strings.ReplaceAll(o.text(s, all), o.prefix, ""))
		if s.End < s.Start || s.End-s.Start > time.Minute.Nanoseconds() {
			o.t.Errorf("%+v", s)
		}
	}
	slices.Sort(got)
	want = slices.Clone(want)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		o.t.Errorf("%s: %s, want %d. Only observed:\n%s\nonly wanted:\n%s", command, english.Count(len(got), "span"), len(want),
			without(got, want), without(want, got))
	}
	return list
}

// without returns the texts of a list that another one does not have, at most ten lines.
func without(list, other []string) string {
	left := map[string]int{}
	for _, s := range other {
		left[s]++
	}
	var only []string
	for _, s := range list {
		if left[s]--; left[s] < 0 {
			only = append(only, s)
		}
	}
	const most = 10
	if len(only) > most {
		only = append(only[:most], "...")
	}
	return strings.Join(only, "\n")
}

// text returns what a span says. Attributes that all have are omitted, and the address of the broker is "broker".
func (o *Observed) text(s *spans.Span, among []*spans.Span) string {
	text := fmt.Sprintf("%s %s", s.Kind, s.Name)
	attributes := map[string]string{}
	for _, a := range s.Attributes {
		key := strings.TrimPrefix(string(a.Key), "messaging.")
		if _, ok := attributes[key]; ok {
			text += " twice"
		}
		attributes[key] = a.Value.String()
	}
	operation, topic, _ := strings.Cut(s.Name, " ")
	if attributes["system"] != "kafka" || attributes["operation.name"] != operation || attributes["operation.type"] != operation ||
		attributes["destination.name"] != topic {
		text += fmt.Sprintf(" of %v", attributes)
	}
	if server, ok := attributes["server.address"]; ok {
		text += " at " + strings.ReplaceAll(server+":"+attributes["server.port"], o.Address, "broker")
	}
	for _, a := range []struct{ key, name string }{{"client.id", "client"}, {"consumer.group.name", "group"}, {"batch.message_count", "count"},
		{"destination.partition.id", "partition"}, {"kafka.offset", "offset"}, {"kafka.message.key", "key"}, {"kafka.message.tombstone", "tombstone"},
		{"error.type", "error"}} {
		if value, ok := attributes[a.key]; ok {
			text += fmt.Sprintf(" %s=%s", a.name, value)
		}
	}
	if (s.Status == codes.Error) != (attributes["error.type"] != "") {
		text += " status=" + s.Status.String()
	}
	if s.Ending != spans.Returned {
		text += fmt.Sprintf(" ending=%d", s.Ending)
	}
	for _, l := range s.Links {
		text += " link=" + l.SpanID().String()
	}
	if s.Rule == spans.RuleHeader {
		return text + " of " + s.Parent.SpanID().String()
	}
	if !within(s) {
		return text
	}
	parent := parentOf(s, among)
	if parent == nil {
		return text + " in an unknown span"
	}
	return fmt.Sprintf("%s in %s by %s", text, parent.Kind, s.Rule)
}

// within reports whether the parent of a span is another one of the program.
func within(s *spans.Span) bool {
	return s.Rule == spans.RuleGoroutine || s.Rule == spans.RuleCreator || s.Rule == spans.RuleContext
}

// parentOf returns the parent of a span among others, or nil.
func parentOf(s *spans.Span, among []*spans.Span) *spans.Span {
	i := slices.IndexFunc(among, func(p *spans.Span) bool {
		return p.Context.SpanID() == s.Parent.SpanID() && p.Context.TraceID() == s.Context.TraceID()
	})
	if i < 0 {
		return nil
	}
	return among[i]
}

// Complete checks that nothing was lost or misunderstood.
func (o *Observed) Complete() {
	o.t.Helper()
	c, err := o.SpanCounts()
	if err != nil {
		o.t.Fatal(err)
	}
	if c.Begun != c.Ended || c.Strays != 0 || c.Mismatched != 0 || c.Unobserved != 0 || c.Notes.Lost != 0 || c.Notes.NotRead != 0 ||
		c.Notes.Impossible != 0 || c.Notes.Full != 0 || c.Notes.Garbled != 0 {
		o.t.Errorf("counts: %+v", c)
	}
}

// Repeat returns a list with n elements.
func Repeat(n int, element func(i int) string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = element(i)
	}
	return list
}
