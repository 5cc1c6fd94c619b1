package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/sched"
)

// sampleLive is two seconds in the life of a program with a contended lock.
func sampleLive() *Live {
	at := func(function, file string, line int) event.Frame {
		return event.Frame{Func: function, File: file, Line: line}
	}
	lock := at("sync.(*Mutex).Lock", "/go/src/sync/mutex.go", 46)
	post := at("example.com/orders/ledger.post", "/src/orders/ledger/ledger.go", 20)
	one := &event.Stack{Frames: []event.Frame{lock, post}}
	other := &event.Stack{Frames: []event.Frame{lock, post, at("main.main", "/src/orders/main.go", 5)}}
	idle := &event.Stack{Frames: []event.Frame{at("evil.\x1b[31mwait", "/src/evil.go", 1)}}
	search := &event.Origin{CreatedBy: at("example.com/orders.search", "/src/orders/search.go", 33), Start: at("example.com/orders.search.gowrap1", "/src/orders/search.go", 33)}
	worker := &event.Origin{CreatedBy: at("main.main", "/src/orders/main.go", 7), Start: at("main.work", "/src/orders/work.go", 3)}
	m := sched.New(sched.Options{})
	now := int64(1e18)
	apply := func(after time.Duration, e event.Event) {
		now += int64(after)
		e.Time = now
		m.Apply(&e)
	}
	apply(0, event.Event{Kind: event.GoStatus, G: 1, State: event.StateRunning})
	for i := range 30 {
		g, origin, stack, reason := uint64(10+i), search, one, "sync.Mutex.Lock"
		switch {
		case i%3 == 1:
			origin, stack = worker, other
		case i%3 == 2:
			stack, reason = idle, "chan receive"
		}
		apply(time.Millisecond, event.Event{Kind: event.GoCreate, G: g, Parent: 1, Origin: origin})
		apply(10*time.Microsecond, event.Event{Kind: event.GoStart, G: g})
		apply(time.Microsecond, event.Event{Kind: event.GoBlock, G: g, Reason: reason, Stack: stack})
		apply(2*time.Millisecond, event.Event{Kind: event.GoUnblock, G: g, By: 1, Stack: one})
		apply(20*time.Microsecond, event.Event{Kind: event.GoStart, G: g})
		apply(time.Microsecond, event.Event{Kind: event.GoDestroy, G: g})
	}
	return &Live{Machine: m, Elapsed: 2 * time.Second, Lost: 1200, Warnings: []event.Warning{{Text: "an odd\x1b thing"}}}
}

func TestLive(t *testing.T) {
	for name, live := range map[string]*Live{
		"live":         sampleLive(),
		"live_refused": {Refused: "live events need CAP_BPF: sudo loupe ..."},
		"live_empty":   {Machine: sched.New(sched.Options{}), Elapsed: time.Second},
	} {
		c := sampleComparison()
		c.Live = live
		var text bytes.Buffer
		live.text(&text, term.Style{}, 0, c.shortPosition)
		golden(t, name+".txt", text.Bytes())
		doc, err := json.MarshalIndent(live.json(), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(doc, '\n'))

		var whole, document bytes.Buffer
		if err := c.Text(&whole, term.Style{}, 0); err != nil || !strings.Contains(whole.String(), text.String()+"\n") {
			t.Errorf("%v: %s is not in the whole:\n%s", err, name, whole.String())
		}
		if err := c.JSON(&document); err != nil || !strings.Contains(document.String(), `"live": {`) || strings.Contains(document.String()+whole.String(), "\x1b") {
			t.Errorf("%v: %s: %s", err, name, document.String())
		}
	}
}
