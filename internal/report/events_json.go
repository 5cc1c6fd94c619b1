package report

import (
	"encoding/json"
	"strconv"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/internal/term"
)

// EventJSON encodes events as JSON, one object per line. It is optimized for millions of events a second: it caches the
// text of stacks and origins.
type EventJSON struct {
	clock   clock
	kinds   [event.KindLimit]kindJSON
	stacks  textCache[event.Stack]
	origins textCache[event.Origin]
}

// kindJSON is the encoding of the events of a kind. The keys include their punctuation.
type kindJSON struct {
	name         string // the text between the time and the process ID
	reason, text string
	object       string
	value        string // empty if the kind has no value
	objectID     bool   // the object is an ID, not an address
	optional     bool   // a value of zero means unknown
}

// NewEventJSON returns an encoder.
func NewEventJSON() *EventJSON {
	j := &EventJSON{clock: clock{zone: time.UTC, layout: "2006-01-02T15:04:05"}}
	for k := range j.kinds {
		j.kinds[k] = jsonOf(event.Kind(k))
	}
	return j
}

func jsonOf(k event.Kind) kindJSON {
	d := k.Describe()
	key := func(field, otherwise string) string {
		if f, ok := d.Field(field); ok {
			otherwise = f.Key
		}
		if otherwise == "" {
			return ""
		}
		return `,"` + otherwise + `":`
	}
	value, _ := d.Field("Value")
	object, _ := d.Field("Object")
	return kindJSON{name: `Z","kind":"` + k.String() + `","pid":`, reason: key("Reason", "reason"), text: key("Text", "text"), object: key("Object", "object"),
		value: key("Value", ""), objectID: object.Unit == event.ID, optional: value.Optional}
}

// Append appends an event to b as one line.
func (j *EventJSON) Append(b []byte, e *event.Event, _ *stream.Interval) []byte {
	b = append(b, `{"time":"`...)
	kind := &j.kinds[e.Kind]
	b = j.clock.appendTo(b, e.Time, 9)
	b = append(b, kind.name...)
	b = strconv.AppendInt(b, int64(e.PID), 10)
	if e.TID != 0 {
		b = append(b, `,"tid":`...)
		b = strconv.AppendInt(b, int64(e.TID), 10)
	}
	b = appendID(b, `,"g":`, e.G)
	b = appendText(b, `,"state":`, string(e.State))
	b = appendText(b, kind.reason, e.Reason)
	b = appendText(b, `,"traceReason":`, e.TraceReason)
	b = appendID(b, `,"parent":`, e.Parent)
	b = appendID(b, `,"by":`, e.By)
	switch {
	case e.Object == 0:
	case kind.objectID:
		b = strconv.AppendUint(append(b, kind.object...), e.Object, 10)
	default:
		b = append(append(b, kind.object...), `"0x`...)
		b = strconv.AppendUint(b, e.Object, 16)
		b = append(b, '"')
	}
	if kind.value != "" && (e.Value != 0 || !kind.optional) {
		b = strconv.AppendInt(append(b, kind.value...), e.Value, 10)
	}
	if p, ok := e.P.ID(); ok {
		b = strconv.AppendInt(append(b, `,"p":`...), int64(p), 10)
	}
	b = appendText(b, kind.text, e.Text)
	if e.Origin != nil {
		b = append(b, j.origins.get(e.Origin, appendOrigin)...)
	}
	if e.Stack != nil {
		b = append(b, j.stacks.get(e.Stack, appendStack)...)
	}
	return append(b, '}', '\n')
}

// appendID appends a field with the ID of a goroutine, or nothing if it is 0.
func appendID(b []byte, key string, id uint64) []byte {
	if id == 0 {
		return b
	}
	return strconv.AppendUint(append(b, key...), id, 10)
}

// appendText appends a field with a text, or nothing if the text is empty.
func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendQuoted(append(b, key...), text)
}

// appendOrigin appends the fields of the origin of a goroutine.
func appendOrigin(b []byte, o *event.Origin) []byte {
	if !o.CreatedBy.IsZero() {
		b = appendFrame(append(b, `,"createdBy":`...), o.CreatedBy)
	}
	if !o.Start.IsZero() {
		b = appendFrame(append(b, `,"start":`...), o.Start)
	}
	if o.System {
		b = append(b, `,"system":true`...)
	}
	return b
}

// appendStack appends the fields of a stack.
func appendStack(b []byte, s *event.Stack) []byte {
	b = append(b, `,"stack":[`...)
	for i, f := range s.Frames {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFrame(b, f)
	}
	b = append(b, ']')
	if s.Truncated {
		b = append(b, `,"truncated":true`...)
	}
	b = appendText(b, `,"runtimeWork":`, s.RuntimeWork())
	return b
}

func appendFrame(b []byte, f event.Frame) []byte {
	b = appendQuoted(append(b, `{"func":`...), f.Func)
	b = appendQuoted(append(b, `,"file":`...), f.File)
	b = append(b, `,"line":`...)
	return append(strconv.AppendInt(b, int64(f.Line), 10), '}')
}

// appendQuoted appends a text as a JSON string that is harmless to a terminal.
func appendQuoted(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			doc, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always has a JSON form
			}
			return append(b, term.EscapeJSON(doc)...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// maxCachedText is the maximum size of the cached texts.
const maxCachedText = 32 << 20

// textCache caches the text of values that an observation shares by pointer.
type textCache[T any] struct {
	texts  map[*T][]byte
	bytes  int
	recent [64]recentText[T] // the most recently used texts, found without hashing
}

type recentText[T any] struct {
	of   *T
	text []byte
}

// get returns the text of v, which write creates. A full cache is cleared.
func (c *textCache[T]) get(v *T, write func([]byte, *T) []byte) []byte {
	recent := &c.recent[uintptr(unsafe.Pointer(v))/unsafe.Sizeof(*v)%uintptr(len(c.recent))]
	if recent.of != v {
		*recent = recentText[T]{v, c.find(v, write)}
	}
	return recent.text
}

func (c *textCache[T]) find(v *T, write func([]byte, *T) []byte) []byte {
	if text, ok := c.texts[v]; ok {
		return text
	}
	if c.texts == nil || c.bytes > maxCachedText {
		c.texts, c.bytes = map[*T][]byte{}, 0
	}
	text := write(nil, v)
	c.texts[v] = text
	c.bytes += len(text)
	return text
}

// clock formats times. It caches the part that changes once a second.
type clock struct {
	zone   *time.Location
	layout string // down to the second
	second int64
	text   []byte
}

// appendTo appends a time in nanoseconds since the Unix epoch, with the given number of fractional digits.
func (c *clock) appendTo(b []byte, nanos int64, digits int) []byte {
	second := nanos / 1e9
	if nanos%1e9 < 0 {
		second--
	}
	rest := uint32(nanos - second*1e9)
	if second != c.second || c.text == nil {
		c.second = second
		c.text = time.Unix(second, 0).In(c.zone).AppendFormat(c.text[:0], c.layout)
	}
	b = append(append(b, c.text...), ".000000000"...)
	fraction := b[len(b)-9:]
	for i := 8; i > 0; i -= 2 {
		pair := rest % 100 * 2
		rest /= 100
		fraction[i-1], fraction[i] = pairs[pair], pairs[pair+1]
	}
	fraction[0] = byte('0' + rest)
	return b[:len(b)-9+digits]
}

// pairs are the numbers below one hundred in two digits.
const pairs = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"
