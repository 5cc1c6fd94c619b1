package report

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
)

// snapshotJSON is the beginning of the goroutine document. The goroutines follow it.
type snapshotJSON struct {
	Time       string   `json:"time"` // RFC 3339, nanoseconds
	PID        int      `json:"pid"`
	GoVersion  string   `json:"goVersion"`
	Count      int      `json:"count"` // goroutines listed
	Total      int      `json:"total"` // number of goroutines in the process, including those of the runtime
	Paused     bool     `json:"paused"`
	Unsettled  int      `json:"unsettled"`  // number of stacks that changed during every read
	Incomplete int      `json:"incomplete"` // number of stacks that could not be unwound completely
	Warnings   []string `json:"warnings,omitempty"`
}

// goroutineJSON is one goroutine. Its stack follows as the last field, "stack": it is encoded once for all goroutines that share it.
type goroutineJSON struct {
	G              uint64            `json:"g"`
	Parent         uint64            `json:"parent,omitempty"`
	Creators       []ancestorJSON    `json:"creators,omitempty"` // the parent, its parent and so on, up to the first one that has ended
	State          event.State       `json:"state"`
	Reason         string            `json:"reason,omitempty"`
	RuntimeWork    string            `json:"runtimeWork,omitempty"`    // see event.RuntimeWork
	WaitSeconds    *float64          `json:"waitSeconds,omitempty"`    // absent if the runtime has not recorded it
	WaitSecondsMax *float64          `json:"waitSecondsMax,omitempty"` // in this case the upper bound
	CreatedBy      *event.Frame      `json:"createdBy,omitempty"`
	Start          *event.Frame      `json:"start,omitempty"`
	BestEffort     bool              `json:"bestEffort,omitempty"`
	Truncated      bool              `json:"truncated,omitempty"` // the stack has further frames
	System         bool              `json:"system"`
	LockedToThread bool              `json:"lockedToThread"`
	ThreadID       int32             `json:"threadId,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
}

// groupJSON is one group of goroutines; waits are in seconds. Its stack follows as the last field.
type groupJSON struct {
	Count      int           `json:"count"`
	State      event.State   `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	Work       string        `json:"runtimeWork,omitempty"` // see event.RuntimeWork
	MinWait    *float64      `json:"minWait,omitempty"`     // of the goroutines whose wait is known
	MaxWait    *float64      `json:"maxWait,omitempty"`
	WaitBound  *float64      `json:"waitBound,omitempty"` // upper bound for the other goroutines
	BestEffort bool          `json:"bestEffort,omitempty"`
	Truncated  bool          `json:"truncated,omitempty"` // the stack has further frames
	CreatedBy  []creatorJSON `json:"createdBy,omitempty"`
	Goroutines []uint64      `json:"goroutines"`
	Labels     []labelJSON   `json:"labels,omitempty"`
}

// ancestorJSON is a live goroutine that created another one, with the go statement by which it was created itself.
type ancestorJSON struct {
	G         uint64       `json:"g"`
	CreatedBy *event.Frame `json:"createdBy,omitempty"`
	Start     *event.Frame `json:"start,omitempty"`
}

type creatorJSON struct {
	event.Frame
	Count int `json:"count"`
}

type labelJSON struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Count int    `json:"count"`
}

// frameJSON is one frame of a stack.
type frameJSON struct {
	event.Frame
	Hidden bool `json:"hidden,omitempty"` // omitted in a Go traceback
}

// JSON writes the list as JSON: an object with the goroutines, or an array of groups.
func (l *Goroutines) JSON(out io.Writer) error {
	w := bufio.NewWriter(out)
	stacks := stackCache{}
	var err error
	if l.Group {
		err = writeArray(w, limited(census.Groups(l.Selection.Goroutines, l.HiddenFrames), l.Limit),
			func(g *census.Group) (any, []byte) { return l.groupJSON(g), stacks.json(g.Stack, l.HiddenFrames) })
	} else {
		err = l.snapshotJSON(w, stacks)
	}
	if err != nil {
		return err
	}
	w.WriteByte('\n')
	return w.Flush()
}

// snapshotJSON encodes one goroutine at a time, because the document of a large program takes much memory.
func (l *Goroutines) snapshotJSON(w *bufio.Writer, stacks stackCache) error {
	listed := limited(l.Selection.Goroutines, l.Limit)
	s := l.Snapshot
	head, err := json.Marshal(snapshotJSON{Time: s.Time.Format(time.RFC3339Nano), PID: s.PID, GoVersion: s.GoVersion,
		Count: len(listed), Total: len(s.Goroutines), Paused: s.Paused, Unsettled: s.Unsettled, Incomplete: s.Incomplete, Warnings: event.WarningTexts(s.Warnings)})
	if err != nil {
		return err
	}
	w.Write(term.EscapeJSON(head[:len(head)-1]))
	w.WriteString(`,"goroutines":`)
	err = writeArray(w, listed, func(g *event.Goroutine) (any, []byte) {
		return l.goroutineJSON(g), stacks.json(g.Stack, l.HiddenFrames)
	})
	if err != nil {
		return err
	}
	return w.WriteByte('}')
}

func (l *Goroutines) goroutineJSON(g *event.Goroutine) goroutineJSON {
	j := goroutineJSON{G: g.ID, Parent: g.Parent, State: g.State, Reason: g.Reason, RuntimeWork: census.RuntimeWork(g.Stack), CreatedBy: frameOrNil(g.CreatedBy),
		Start: frameOrNil(g.Start), BestEffort: g.BestEffort, Truncated: g.Truncated, System: g.System,
		LockedToThread: g.Locked, ThreadID: g.TID, Labels: g.Labels}
	for _, c := range census.Creators(l.Snapshot, g) {
		j.Creators = append(j.Creators, ancestorJSON{c.ID, frameOrNil(c.CreatedBy), frameOrNil(c.Start)})
	}
	if g.WaitKnown {
		j.WaitSeconds = seconds(g.Wait)
	} else if g.WaitMax > 0 {
		j.WaitSecondsMax = seconds(g.WaitMax)
	}
	return j
}

func (l *Goroutines) groupJSON(g *census.Group) groupJSON {
	j := groupJSON{Count: len(g.Goroutines), State: g.State, Reason: g.Reason, Work: census.RuntimeWork(g.Stack),
		BestEffort: g.BestEffort, Truncated: g.Truncated}
	if g.Wait.Known > 0 {
		j.MinWait, j.MaxWait = seconds(g.Wait.Min), seconds(g.Wait.Max)
	}
	if g.Wait.Bound > 0 {
		j.WaitBound = seconds(g.Wait.Bound)
	}
	for _, c := range g.CreatedBy {
		j.CreatedBy = append(j.CreatedBy, creatorJSON{c.Of, c.N})
	}
	for _, c := range g.Labels {
		j.Labels = append(j.Labels, labelJSON{c.Of.Key, c.Of.Value, c.N})
	}
	for _, r := range g.Goroutines {
		j.Goroutines = append(j.Goroutines, r.ID)
	}
	return j
}

// stackCache caches the escaped JSON of stacks by their address, because many goroutines share one.
type stackCache map[stackAddr][]byte

type stackAddr struct {
	first *event.StackFrame
	n     int
}

func (c stackCache) json(stack []event.StackFrame, hidden bool) []byte {
	if len(stack) == 0 {
		return []byte("[]")
	}
	addr := stackAddr{&stack[0], len(stack)}
	if doc, ok := c[addr]; ok {
		return doc
	}
	shown := stack
	if !hidden {
		shown = census.Visible(stack)
	}
	doc, err := json.Marshal(framesJSON(shown))
	if err != nil {
		panic(err) // strings, integers and booleans always have a JSON form
	}
	doc = term.EscapeJSON(doc)
	c[addr] = doc
	return doc
}

func framesJSON(stack []event.StackFrame) []frameJSON {
	list := make([]frameJSON, len(stack))
	for i := range stack {
		list[i] = frameJSON{stack[i].Frame, stack[i].Hidden}
	}
	return list
}

// writeArray writes a JSON array with one element on each line: an object, with a stack as its last field.
func writeArray[T any](w *bufio.Writer, list []T, element func(T) (object any, stack []byte)) error {
	w.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			w.WriteByte(',')
		}
		w.WriteByte('\n')
		object, stack := element(e)
		doc, err := json.Marshal(object)
		if err != nil {
			return err
		}
		w.Write(term.EscapeJSON(doc[:len(doc)-1]))
		w.WriteString(`,"stack":`)
		w.Write(stack)
		w.WriteByte('}')
	}
	if len(list) > 0 {
		w.WriteByte('\n')
	}
	return w.WriteByte(']')
}

// WriteJSON writes a small document as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(term.EscapeJSON(doc), '\n'))
	return err
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

func frameOrNil(f event.Frame) *event.Frame {
	if f.IsZero() {
		return nil
	}
	return &f
}
