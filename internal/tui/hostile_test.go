package tui

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/live"
)

// hostileWorld has names that do what names should not.
func hostileWorld() *world {
	w := newWorld()
	names := []string{"\x1b[2J\x1b[31mred", "a\r\nb", "\u202eright to left", strings.Repeat("long", 5000), "zalgo e\u0301\u0302\u0303\u0304", "👩‍👩‍👧‍👦 🇩🇪 ☎️", "全角文字" + strings.Repeat("漢", 300),
		"\xff\xfe bad", "\u009b31m", "각", "tab\tbed", "", "\u200bzero", "\U000e0041tag", "ﷺ"}
	for i, n := range names {
		g := uint64(i + 1)
		f := frame("main."+n, "/src/"+n+".go", i)
		stack := stackOf(f, frame(n, n, -5))
		origin := &event.Origin{CreatedBy: frame(n+"/"+n+"."+n, n, 1<<31), Start: f}
		w.apply(event.Event{Kind: event.GoCreate, G: g, Parent: 1 << 63, Origin: origin, Stack: stack})
		w.apply(event.Event{Kind: event.GoStart, G: g})
		w.apply(event.Event{Kind: event.GoBlock, G: g, Reason: "chan send " + n, TraceReason: n, Stack: stack})
		w.pass(time.Millisecond)
		if i%2 == 0 {
			w.apply(event.Event{Kind: event.GoUnblock, G: g, By: 1<<64 - 1, Stack: stack})
		}
		w.apply(event.Event{Kind: event.STWBegin, Reason: n})
	}
	w.apply(event.Event{Kind: event.GoStatus, G: 1 << 62, State: event.State(names[0]), Reason: names[1]})
	w.apply(event.Event{Kind: event.HeapAlloc, Value: -1})
	w.health = live.Health{Lost: 1<<64 - 1}
	for _, name := range names {
		w.health.Warnings = append(w.health.Warnings, event.Warning{Text: name})
	}
	return w
}

// allKeys are all keys that mean something, and some that do not.
var allKeys = []string{"1", "2", "3", "4", "5", "tab", "shift+tab", "enter", "enter", "enter", "esc", "backspace", "up", "down", "k", "j", "pgup", "pgdown", "home", "end",
	"/", "a", "s", "r", "p", "space", "i", "S", "?", "w", "P", "W", "x", "ctrl+u", "f12", "", "é", "漢", "0", "9"}

// mash does what the bytes say: keys, sizes, pictures and time, and checks each frame.
func mash(t *testing.T, w *world, data []byte) {
	d := &desk{t, w, NewModel(Target{Name: "\x1b[5mname", PID: -1, GoVersion: "go\u202e1", System: true, Syscalls: len(data)%2 == 0}, time.Second, true)}
	width, height := 80, 24
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case b >= 0xf0 && i+2 < len(data):
			width, height = int(data[i+1])*2, int(data[i+2])/2
			d.model.Update(Resize{width, height})
			i += 2
		case b >= 0xe8:
			w.pass(time.Duration(b) * 20 * time.Millisecond)
			d.look()
		case b == 0xe7:
			d.model.Update(Ended{Text: "ended \x1b[2J"})
		case b == 0xe6:
			w.apply(event.Event{Kind: event.Lost, Value: 5})
		default:
			d.press(allKeys[int(b)%len(allKeys)])
		}
		check(t, d.model.View(width, height), max(width, 0), max(height, 1))
		check(t, d.model.View(height, width), max(height, 0), max(width, 1)) // a size that the model was not told of
	}
}

// TestAnyKeyAnySize presses keys at random at any size, with friendly and hostile names.
func TestAnyKeyAnySize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 15 {
		data := make([]byte, 100)
		for i := range data {
			data[i] = byte(r.UintN(256))
		}
		mash(t, hostileWorld(), data)
		mash(t, shop(2), data)
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte("\xf0\x28\x14\xff\x07\xfe\x07\x00"))
	f.Add([]byte{0xff, 2, 7, 0xfe, 7, 0xf1, 20, 20, 5, 28, 14, 14})
	f.Add([]byte{0xff, 0xff, 3, 20, 21, 4, 20, 1, 2, 3, 11, 0xe7, 0xe6, 0xf0, 0, 0, 0xf0, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 300 {
			data = data[:300]
		}
		mash(t, hostileWorld(), data)
	})
}
