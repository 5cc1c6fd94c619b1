package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/live"
)

// shows fails when the screen lacks a text.
func (d *desk) shows(texts ...string) {
	d.t.Helper()
	screen := d.screen()
	check(d.t, screen, d.model.width, d.model.height)
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			d.t.Errorf("no %q in\n%s", text, screen)
		}
	}
}

// lacks fails when the screen has a text.
func (d *desk) lacks(texts ...string) {
	d.t.Helper()
	for _, text := range texts {
		if screen := d.screen(); strings.Contains(screen, text) {
			d.t.Errorf("%q in\n%s", text, screen)
		}
	}
}

// chosenRow is the row under the cursor.
func (d *desk) chosenRow() string {
	for l := range strings.SplitSeq(d.screen(), "\n") {
		if strings.HasPrefix(l, "▸") {
			return l
		}
	}
	return ""
}

func (d *desk) chose(text string) {
	d.t.Helper()
	if row := d.chosenRow(); !strings.Contains(row, text) {
		d.t.Errorf("the cursor is on %q, not on %q", row, text)
	}
}

func TestFirstPicture(t *testing.T) {
	m := NewModel(Target{PID: 1}, time.Second, false)
	m.Update(Resize{80, 24})
	if screen := m.View(80, 24); !strings.Contains(screen, "waiting for the first events") {
		t.Errorf("without a picture:\n%s", screen)
	}
	d := sit(t, shop(1), 80, 24)
	d.shows("… created/s", "1 running", "search.askReplica")
	d.lacks("0 created/s")
	d.wait(1)
	d.shows("10 created/s", "6.2 ended/s", "21 wake-ups/s")
	d.lacks("… created/s", "…/s")
}

func TestGrowth(t *testing.T) {
	d := sit(t, shop(1), 120, 40)
	d.wait(2)
	d.lacks("/min")
	d.wait(10)
	d.shows("+247/min")
}

func TestMoveAndFollow(t *testing.T) {
	d := sit(t, shop(3), 120, 24)
	d.wait(1)
	d.chose("http.(*conn).serve")
	d.press("down")
	d.chose("search.askReplica")
	d.press("j", "k")
	d.wait(20) // the leak overtakes the connections
	d.chose("search.askReplica")
	if rows := strings.Split(d.screen(), "\n"); !strings.Contains(rows[11], "▸") {
		t.Errorf("the cursor does not follow its row:\n%s", d.screen())
	}
	d.press("end")
	d.chose("go in main.main")
	d.press("home")
	d.chose("search.askReplica")
	d.press("pgdown")
	d.chose("go in main.main")
	d.press("pgup", "up", "up")
	d.chose("search.askReplica")
}

func TestSort(t *testing.T) {
	d := sit(t, shop(3), 120, 24)
	d.wait(2)
	d.shows("by live ▼", "LIVE▼")
	d.press("s", "s")
	d.shows("by new/s ▼", "NEW/S▼")
	d.chose("search.askReplica")
	d.press("r")
	d.shows("by new/s ▲")
	d.press("end")
	d.chose("search.askReplica")
	d.press("r") // the cursor stays with the row that it was moved to
	d.chose("search.askReplica")
}

func TestDrillDown(t *testing.T) {
	d := sit(t, shop(12), 120, 60)
	d.wait(2)
	d.press("down", "enter")
	d.shows("sites › search.askReplica", "chan send", "1-48 of 56")
	d.lacks("IO wait")
	d.press("enter")
	d.shows("sites › search.askReplica › goroutine 100", "CREATED 13.6s ago by goroutine 3 http.(*conn).serve", "example.com/shop.(*Server).find",
		"blocked after 2ms: chan send", "started running after 150µs", "running 2ms")
	d.press("P")
	d.shows("› goroutine 100 › goroutine 3", "LAST WOKEN by goroutine 60 go in main.main", "example.com/shop.keepBooks", "woken by goroutine 60 after 42ms")
	d.press("W")
	d.shows("› goroutine 60", "running", "no stack recorded")
	d.press("esc", "esc", "backspace")
	d.shows("sites › search.askReplica", "esc back")
	d.press("esc")
	d.shows("1 sites", "LIVE▼")
	d.press("esc") // nothing is left to go back to
	d.shows("LIVE▼")
}

func TestPlaces(t *testing.T) {
	d := sit(t, shop(12), 140, 40)
	d.wait(1)
	d.press("3")
	d.shows("sync.Mutex.Lock", "shop.(*Ledger).Post ledger.go:41", "locks, sends", "42ms")
	d.lacks("IO wait")
	d.press("a")
	d.shows("IO wait", "all waits")
	d.press("a", "down", "enter")
	d.shows("contention › shop.(*Ledger).Post: sync.Mutex.Lock", "130 waits over", "sync.(*Mutex).Lock", "none")
	d.press("esc", "up", "enter")
	d.shows("52 goroutines now", "search.askReplica search.go:52", "ID")
}

func TestStates(t *testing.T) {
	d := sit(t, shop(12), 120, 40)
	d.press("2")
	d.chose("IO wait")
	d.shows("1m11s", "3h")
	d.press("enter")
	d.shows("states › IO wait", "of 57")
	d.press("2", "end", "enter")
	d.shows("states › select", "of 1", "main.main")
}

func TestFilter(t *testing.T) {
	d := sit(t, shop(12), 120, 24)
	d.press("/")
	d.press(keysOf("LEDGER")...)
	d.shows("/LEDGER▏", "none")
	d.press("esc")
	d.shows("search.askReplica", "http.(*conn).serve")
	d.press("4", "/")
	d.press(keysOf("replicax")...)
	d.press("backspace", "enter")
	d.shows("/replica", "1-12 of 48")
	d.lacks("IO wait")
	d.press("tab", "shift+tab") // other views have filters of their own
	d.shows("/replica")
	d.press("esc")
	d.shows("IO wait")
	d.press("/", "1", "0", "3", "enter")
	d.chose("103")
	d.shows("1-1 of 1")
	if d.press("/", "q") {
		t.Error("q quits while a filter is typed")
	}
	d.shows("/q▏")
	d.press("esc")
	d.shows("/103 ") // the filter of before
	d.press("/", "x", "ctrl+u", "enter")
	d.shows("of 10") // the filter is empty: all are there
}

func TestPause(t *testing.T) {
	d := sit(t, shop(5), 120, 24)
	d.wait(1)
	d.press("p")
	before := d.screen()
	d.shows("PAUSED", "p resume")
	d.wait(5)
	d.look() // a picture that was under way
	if after := d.screen(); after != before {
		t.Errorf("the picture changes while it is paused:\n%s\n%s", before, after)
	}
	d.press("down", "enter") // what was not there before is looked at
	d.shows("PAUSED", "search.askReplica search.go:52")
	d.press("esc", "space")
	d.lacks("PAUSED")
	if d.screen() == before {
		t.Error("the picture does not go on")
	}
}

func TestInterval(t *testing.T) {
	d := sit(t, shop(1), 120, 24)
	d.press("i")
	d.shows("every 2s")
	d.press("i", "i", "i", "i")
	d.shows("every 500ms")
	if d.model.Interval() != 500*time.Millisecond {
		t.Errorf("interval %v", d.model.Interval())
	}
}

func TestSystem(t *testing.T) {
	w := shop(2)
	d := sit(t, w, 120, 24)
	d.model.Update(Target{Name: "shop", PID: 4711, System: true})
	d.press("4", "/", "s", "w", "e", "e", "p", "enter")
	d.shows("GC sweep wait")
	d.press("S")
	d.lacks("GC sweep wait")
	d.press("1")
	d.lacks("bgsweep")
	d.press("S")
	d.shows("bgsweep")
}

func TestOverlays(t *testing.T) {
	d := sit(t, shop(2), 80, 24)
	d.press("?")
	d.shows("help", "Keys", "1-5, tab")
	d.press("end")
	d.shows("counts as running")
	if d.press("q") {
		t.Error("q quits from the help")
	}
	d.shows("LIVE▼")
	d.press("w")
	d.shows("Nothing is uncertain")
	d.press("esc")
	d.world.health = live.Health{Lost: 12345, Warnings: []event.Warning{{Text: "odd \x1b]0;title\x07 thing"}}}
	d.wait(1)
	d.shows("12,345 LOST", "12,345 lost", "1 note")
	d.press("w")
	d.shows("12,345 events lost: the buffer was full", `odd \x1b]0;title\x07 thing`)
	if !d.press("ctrl+c") || d.press("esc") || !d.press("q") {
		t.Error("ctrl-c quits anywhere, q on a page")
	}
}

func TestEnd(t *testing.T) {
	d := sit(t, shop(5), 120, 24)
	d.wait(2)
	if a := d.model.Update(Ended{Text: "process 4711 has exited"}); !a.Want || a.Quit {
		t.Errorf("%+v", a)
	}
	d.look()
	d.look() // no time has passed
	d.shows("ENDED", "process 4711 has exited", "10 created/s", "search.askReplica")
	d.press("enter")
	d.shows("http.(*conn).serve", "process 4711 has exited")
}

// TestGone looks at a goroutine until it has ended.
func TestGone(t *testing.T) {
	w := shop(2)
	d := sit(t, w, 120, 50)
	d.press("4", "/", "1", "0", "3", "enter", "enter")
	d.shows("goroutine 103", "chan send")
	w.apply(event.Event{Kind: event.GoUnblock, G: 103, By: 3, Stack: stackMake})
	w.apply(event.Event{Kind: event.GoStart, G: 103})
	w.apply(event.Event{Kind: event.GoDestroy, G: 103})
	d.look()
	d.shows("ended", "last known data", "search.askReplica", "woken by goroutine 3")
	d.press("esc", "esc", "/", "9", "9", "9", "enter", "enter")
	d.shows("none")
	d.model.opened = append(d.model.opened, newOne(424242))
	d.look()
	d.shows("424242 has ended, and no data about it is kept")
}
