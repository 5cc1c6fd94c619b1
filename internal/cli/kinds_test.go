package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/eventtest"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/record"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/trace"
)

// TestEveryKind passes an event of each kind of the table, with all fields, through every consumer of events. None may drop
// it silently.
func TestEveryKind(t *testing.T) {
	for _, k := range eventtest.All().List() {
		t.Run(k.String(), func(t *testing.T) {
			e := eventtest.Filled(k)
			everyKindJSON(t, &e)
			everyKindText(t, &e)
			everyKindStream(t, &e)
			everyKindSched(t, &e)
			everyKindFiles(t, &e)
			everyKindTrace(t, &e)
		})
	}
}

// everyKindJSON expects the name of the kind and each field under the key in the table.
func everyKindJSON(t *testing.T, e *event.Event) {
	var got map[string]any
	line := report.NewEventJSON().Append(nil, e, &stream.Interval{})
	if err := json.Unmarshal(line, &got); err != nil || got["kind"] != e.Kind.String() {
		t.Fatalf("JSON: %v, %s", err, line)
	}
	for _, f := range e.Kind.Describe().Fields {
		for _, key := range map[string][]string{"Origin": {"createdBy", "start"}, "Stack": {"stack"}, "": {f.Key}}[structured(f)] {
			if got[key] == nil {
				t.Errorf("JSON: no %q: %s", key, line)
			}
		}
	}
}

// structured returns the name of a field that is no number and no text, and "" for others.
func structured(f event.Field) string {
	if f.Key == "" {
		return f.Name
	}
	return ""
}

// everyKindText expects the name of the kind, and the texts of the program and the runtime.
func everyKindText(t *testing.T, e *event.Event) {
	line := string(report.NewEventText(term.Style{}, eventtest.All()).Append(nil, e, &stream.Interval{}))
	for _, want := range []string{e.Kind.String(), e.Reason, e.Text} {
		if !strings.Contains(line, want) {
			t.Errorf("text: no %q: %s", want, line)
		}
	}
	f, ok := e.Kind.Describe().Field("Value")
	if digits := strings.ContainsAny(report.EventDetail(e), "123456789"); ok && f.Unit != event.ID && !digits {
		t.Errorf("text: no value: %s", line)
	}
}

// everyKindStream expects that a filter for the kind lets it pass.
func everyKindStream(t *testing.T, e *event.Event) {
	transitions, tally := stream.NewTransitions(eventtest.All()), stream.NewTally(eventtest.All())
	for _, before := range eventtest.Before(e.Kind) {
		transitions.Next(&before)
		tally.Add(&before)
	}
	ended := transitions.Next(e)
	tally.Add(e)
	others := eventtest.All().Without(event.KindsOf(e.Kind))
	passes := func(kinds event.Kinds) bool { return stream.Filter{Kinds: kinds}.Select().Wants(e, ended) }
	if always := event.GroupStream.Kinds().Has(e.Kind); !passes(event.KindsOf(e.Kind)) || passes(others) != always {
		t.Errorf("filters: %v of the kind, %v of others", passes(event.KindsOf(e.Kind)), passes(others))
	}
	trigger := record.NewTrigger(record.Conditions{Blocked: time.Hour, Goroutines: 1000}, eventtest.All())
	trigger.Next(e)
}

// everyKindSched expects that the machine counts the event, and has it in its history.
func everyKindSched(t *testing.T, e *event.Event) {
	m := sched.New(sched.Options{Kinds: eventtest.All(), History: 100})
	for _, before := range eventtest.Before(e.Kind) {
		m.Apply(&before)
	}
	counted := m.Totals().Kinds[e.Kind]
	if e.Kind == event.Exec {
		counted = 0 // all counts begin anew
	}
	m.Apply(e)
	if got := m.Totals(); got.Kinds[e.Kind] != counted+1 || got.UnknownKinds != 0 {
		t.Errorf("sched: counted %d, %d of unknown kinds", got.Kinds[e.Kind]-counted, got.UnknownKinds)
	}
	history := m.History(0, 1)
	if len(history) != 1 || history[0].Kind != e.Kind || history[0].Value != e.Value {
		t.Errorf("sched: history %+v", history)
	}
}

// everyKindFiles expects that the event makes a difference in each format of a file, and that formats with names of kinds
// name it.
func everyKindFiles(t *testing.T, e *event.Event) {
	write := func(sink export.Sink, err error, events []event.Event) {
		t.Helper()
		for i := range events {
			if err == nil {
				err = sink.Write(&events[i])
			}
		}
		if err == nil {
			err = sink.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	without := append(eventtest.Before(e.Kind), eventtest.After())
	with := slices.Insert(slices.Clone(without), len(without)-1, *e)
	differ := func(name string, without, with *bytes.Buffer) {
		t.Helper()
		if bytes.Equal(without.Bytes(), with.Bytes()) {
			t.Errorf("%s: the event makes no difference", name)
		}
	}
	for _, format := range export.Formats() {
		var out [2]bytes.Buffer
		for i, events := range [][]event.Event{without, with} {
			opt := export.Options{Process: "p", Kinds: eventtest.All(), Threads: true, Wall: true, Profile: "block"}
			sink, err := format.New(&out[i], opt)
			write(sink, err, events)
		}
		switch format.Name {
		case export.Pprof: // contains waits only
		case export.CSV:
			if row := "," + e.Kind.String() + ","; strings.Count(out[1].String(), row) != strings.Count(out[0].String(), row)+1 {
				t.Errorf("CSV: no row of the event:\n%s", &out[1])
			}
		default:
			differ(format.Name, &out[0], &out[1])
		}
	}
}

// everyKindTrace expects that a Go trace of the event has it: as an event if traces have such events, otherwise as a message.
func everyKindTrace(t *testing.T, e *event.Event) {
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, trace.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range append(eventtest.Before(e.Kind), *e, eventtest.After()) {
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := w.Stats().Skipped[e.Kind]; n > 0 {
		t.Errorf("trace: skipped")
	}
	r, err := trace.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	found, kinds := e.Kind == event.Exec, event.Kinds{} // Exec ends all goroutines, which everyKindFiles sees
	for got, err := range r.Events() {
		if err != nil {
			t.Fatal(err)
		}
		kinds = kinds.Union(event.KindsOf(got.Kind))
		found = found || got.Kind == e.Kind || got.Kind == event.UserLog && got.Category() == e.Kind.String()
	}
	if !found {
		t.Errorf("trace: the event is missing among %s", kinds)
	}
}
