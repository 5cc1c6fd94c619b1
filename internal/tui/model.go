package tui

import (
	"slices"
	"time"

	"github.com/loupe-go/loupe/live"
)

// Model is the state of the live view. Update changes it, View draws it; neither waits for anything.
type Model struct {
	target   Target
	theme    theme
	picture  *live.Picture // nil until the first one
	ended    *Ended
	interval time.Duration

	views  []page // the first pages, one for each view
	view   int
	opened []page // on top of it, the last one is on the screen
	over   *overlay

	typing     bool   // a filter
	typed      string // the filter before, to return to
	paused     bool
	printed    bool // it is printed, not shown on a terminal: there are no keys
	hideSystem bool

	width, height int
}

// Key is a pressed key: its name as Bubble Tea spells it ("a", "S", "enter", "ctrl+c"), and the text that it types.
type Key struct{ Name, Text string }

// Resize is a new size of the screen, in characters.
type Resize struct{ Width, Height int }

// Ended says that no more events come. The next picture is the last one.
type Ended struct {
	Text string // why: "process 42 has exited"
	Bad  bool   // it should have gone on
}

// Action is what the Model wants done after an Update.
type Action struct {
	Quit bool
	Want bool // a picture for Query, at once
}

// page is what is on the screen below the head.
type page interface {
	name(m *Model) string               // in the line of the views
	query(q *live.Query)                // sets what pictures need to have for it
	refresh(m *Model)                   // there is a new picture or a new filter
	draw(m *Model, w, h int) []string   // at most h lines of any width
	press(m *Model, key string) outcome // a key that is not for all pages
	status(m *Model) string             // in the last line
	filtering() *string                 // the filter; nil when there is none
	keys() []hint                       // that are particular to the page
}

// outcome is what a key does on a page.
type outcome struct {
	want bool // another picture is needed
	open page // goes on top
}

// hint is a key and what it does.
type hint struct{ key, does string }

// intervals are what `i` chooses among.
var intervals = []time.Duration{
	200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// NewModel returns a view of a target with a picture every interval. Without colours it is drawn as plain text.
func NewModel(target Target, interval time.Duration, colours bool) *Model {
	m := &Model{target: target, interval: interval}
	if colours {
		m.theme = newTheme()
	}
	m.views = []page{newSites(target), newGroups(), newContention(), newGoroutines(live.Scope{}, "", nil), &latencyPage{}}
	return m
}

// Interval is the time from one picture to the next.
func (m *Model) Interval() time.Duration { return m.interval }

// Paused reports whether the picture is to stay as it is.
func (m *Model) Paused() bool { return m.paused }

// Query is what the next picture is to show.
func (m *Model) Query() live.Query {
	q := live.Query{System: m.target.System && !m.hideSystem, Module: m.target.Module}
	m.page().query(&q)
	return q
}

// page is the one on the screen.
func (m *Model) page() page {
	if n := len(m.opened); n > 0 {
		return m.opened[n-1]
	}
	return m.views[m.view]
}

// Update takes in a Key, a Resize, a *Picture, a Target, or Ended.
func (m *Model) Update(msg any) Action {
	switch msg := msg.(type) {
	case Key:
		return m.press(msg)
	case Resize:
		m.width, m.height = msg.Width, msg.Height
	case *live.Picture:
		m.show(msg)
	case Target:
		m.target = msg
	case Ended:
		m.ended = &msg
		return Action{Want: true}
	}
	return Action{}
}

// show puts up a picture. While paused it only serves what is on the screen for the first time.
func (m *Model) show(p *live.Picture) {
	if m.paused && m.picture != nil {
		if p.Query != m.Query() || p.Query == m.picture.Query {
			return
		}
		frozen := *m.picture
		frozen.Query, frozen.Detail = p.Query, p.Detail
		p = &frozen
	}
	m.picture = p
	m.page().refresh(m)
}

// detail is what the picture has for the page on the screen; false when it was taken for another one. A list for another
// filter or order will do until the right one is there.
func (m *Model) detail() (*live.Detail, bool) {
	q := m.Query()
	if m.picture == nil || m.picture.Query.About != q.About || m.picture.Query.Scope != q.Scope || m.picture.Query.ID != q.ID {
		return &live.Detail{}, false
	}
	return &m.picture.Detail, true
}

func (m *Model) press(k Key) Action {
	switch {
	case k.Name == "ctrl+c":
		return Action{Quit: true}
	case m.typing:
		return m.edit(k)
	case m.over != nil:
		if !m.over.press(k.Name, m.bodyHeight()) {
			m.over = nil
		}
		return Action{}
	}
	if n := len(k.Name); n == 1 && k.Name[0] >= '1' && int(k.Name[0]-'1') < len(m.views) {
		return m.turnTo(int(k.Name[0] - '1'))
	}
	switch k.Name {
	case "q":
		return Action{Quit: true}
	case "tab":
		return m.turnTo((m.view + 1) % len(m.views))
	case "shift+tab":
		return m.turnTo((m.view + len(m.views) - 1) % len(m.views))
	case "esc", "backspace":
		return m.back()
	case "?", "f1":
		m.over = newHelp(m)
	case "w":
		m.over = newNotes(m)
	case "p", "space":
		m.paused = !m.paused
		return Action{Want: !m.paused}
	case "i":
		i := slices.IndexFunc(intervals, func(d time.Duration) bool { return d > m.interval })
		m.interval = intervals[max(i, 0)]
		return Action{Want: !m.paused}
	case "S":
		m.hideSystem = m.target.System && !m.hideSystem
		m.page().refresh(m)
		return Action{Want: m.target.System}
	case "/":
		if f := m.page().filtering(); f != nil {
			m.typing, m.typed = true, *f
			*f = ""
			m.page().refresh(m)
			return Action{Want: true}
		}
	default:
		return m.pressPage(k.Name)
	}
	return Action{}
}

// maxOpened bounds the pages that esc leads back to: from a goroutine to its waker one can go on for ever.
const maxOpened = 50

// pressPage gives a key to the page on the screen.
func (m *Model) pressPage(key string) Action {
	did := m.page().press(m, key)
	if did.open != nil {
		m.opened = append(m.opened, did.open)
		m.opened = m.opened[max(len(m.opened)-maxOpened, 0):]
		m.page().refresh(m)
		return Action{Want: true}
	}
	return Action{Want: did.want}
}

// turnTo shows a view.
func (m *Model) turnTo(view int) Action {
	m.view, m.opened = view, nil
	m.page().refresh(m)
	return Action{Want: true}
}

// back removes the filter, or closes the page on top.
func (m *Model) back() Action {
	switch f := m.page().filtering(); {
	case f != nil && *f != "":
		*f = ""
	case len(m.opened) > 0:
		m.opened = m.opened[:len(m.opened)-1]
	default:
		return Action{}
	}
	m.page().refresh(m)
	return Action{Want: true}
}

// maxFilter bounds the text of a filter.
const maxFilter = 200

// edit changes the filter that is being typed. It is in force at once.
func (m *Model) edit(k Key) Action {
	f := m.page().filtering()
	if f == nil {
		m.typing = false
		return Action{}
	}
	switch k.Name {
	case "enter":
		m.typing = false
		return Action{}
	case "esc":
		m.typing = false
		*f = m.typed
	case "backspace":
		if r := []rune(*f); len(r) > 0 {
			*f = string(r[:len(r)-1])
		}
	case "ctrl+u":
		*f = ""
	default:
		if k.Text == "" || len(*f)+len(k.Text) > maxFilter {
			return Action{}
		}
		*f += k.Text
	}
	m.page().refresh(m)
	return Action{Want: true}
}
