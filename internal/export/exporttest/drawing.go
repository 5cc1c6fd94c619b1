package exporttest

import (
	"fmt"
	"sort"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
)

// Drawing is what was drawn, in the order in which it was.
type Drawing struct{ Items []Item }

// Item is the beginning ('B') or the end ('E') of a slice, an instant ('I'), a value of a counter ('C'), or what a track is
// called ('T').
type Item struct {
	What     byte
	At       int64  // nanoseconds since the first event
	Track    string // "g 18", "g 18 regions", "thread 7", "task 1", "GC", "stop the world", "lost events", "process"; of a counter its name
	Name     string // of a track what viewers show
	Category string
	Flow     string   // "> 7" where a flow begins, "< 7" where it ends
	Stack    string   // frames, the innermost first
	Args     []string // "key=value"
	Value    int64
}

// String returns an item as a line.
func (i *Item) String() string {
	var b strings.Builder
	switch i.What {
	case 'T':
		return fmt.Sprintf("T %s: %s", i.Track, i.Name)
	case 'C':
		return fmt.Sprintf("C %d %s: %d", i.At, i.Track, i.Value)
	}
	fmt.Fprintf(&b, "%c %d %s", i.What, i.At, i.Track)
	if i.What != 'E' {
		fmt.Fprintf(&b, ": %s [%s]", i.Name, i.Category)
	}
	if i.Flow != "" {
		b.WriteString(" " + i.Flow)
	}
	sort.Strings(i.Args)
	for _, a := range i.Args {
		b.WriteString(" " + a)
	}
	if i.Stack != "" {
		b.WriteString(" at " + i.Stack)
	}
	return b.String()
}

// String returns a drawing as lines.
func (d *Drawing) String() string {
	var b strings.Builder
	for i := range d.Items {
		b.WriteString(d.Items[i].String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Tracks returns what was drawn with the names of tracks sorted to the front, each with its last name: formats differ in when
// they tell them.
func (d *Drawing) Tracks() string {
	names := map[string]string{}
	var rest Drawing
	for _, i := range d.Items {
		if i.What == 'T' {
			names[i.Track] = i.Name
			continue
		}
		rest.Items = append(rest.Items, i)
	}
	var lines []string
	for t, n := range names {
		lines = append(lines, fmt.Sprintf("T %s: %s\n", t, n))
	}
	sort.Strings(lines)
	return strings.Join(lines, "") + rest.String()
}

// Check returns what is wrong with a drawing: a time that goes backwards on a track, an end without a beginning, a slice that
// does not end, a flow that begins or ends twice or ends before it begins.
func (d *Drawing) Check() error {
	depth, last := map[string]int{}, map[string]int64{}
	type flow struct {
		began, ended bool
		at           int64
	}
	flows := map[string]*flow{}
	for n := range d.Items {
		i := &d.Items[n]
		if i.What == 'T' {
			continue
		}
		if i.At < last[i.Track] || i.At < 0 {
			return fmt.Errorf("item %d is before %d: %s", n, last[i.Track], i)
		}
		last[i.Track] = i.At
		switch i.What {
		case 'B':
			depth[i.Track]++
		case 'E':
			if depth[i.Track]--; depth[i.Track] < 0 {
				return fmt.Errorf("item %d ends what did not begin: %s", n, i)
			}
		}
		if i.Flow == "" {
			continue
		}
		f := flows[i.Flow[2:]]
		if f == nil {
			f = &flow{}
			flows[i.Flow[2:]] = f
		}
		begins := i.Flow[0] == '>'
		if begins && f.began || !begins && (f.ended || !f.began || i.At < f.at) {
			return fmt.Errorf("item %d is out of place in its flow %+v: %s", n, *f, i)
		}
		f.began, f.ended, f.at = true, !begins, i.At
	}
	for t, n := range depth {
		if n != 0 {
			return fmt.Errorf("%d slices on %s do not end", n, t)
		}
	}
	return nil
}

// StackText returns a stack, of which at most so many frames count, as in an Item.
func StackText(s *event.Stack, frames int) string {
	if s == nil || len(s.Frames) == 0 || frames <= 0 {
		return ""
	}
	var parts []string
	n := min(frames, len(s.Frames))
	for _, f := range s.Frames[:n] {
		part := term.Escape(f.Func)
		if f.File != "" {
			part = fmt.Sprintf("%s %s:%d", part, term.Escape(f.File), max(f.Line, 0))
		}
		parts = append(parts, part)
	}
	if n < len(s.Frames) || s.Truncated {
		parts = append(parts, "…")
	}
	return strings.Join(parts, " < ")
}
