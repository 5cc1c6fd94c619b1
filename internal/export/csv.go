package export

import (
	"io"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
)

// csvHead names the columns. Later ones may be added, at the end.
//
//	time      nanoseconds since the Unix epoch, or since the trace began where that does not tell the time of day
//	kind      as in package event
//	g, parent, by  goroutines' IDs
//	reason    why a goroutine waits or was stopped, or the world; of a UserLog the category
//	thread    the kernel's ID of the thread; p the P's
//	function, file, line  the innermost frame of the stack
//	value     whose meaning the kind tells, as in package event
//	state     on GoStatus, and on GoCreate and GoSyscallEnd if it is not the usual one
//	start     the function that a goroutine starts with, on GoCreate and GoStatus
//	text      a name or message of the program itself
const csvHead = "time,kind,g,parent,by,reason,thread,p,function,file,line,value,state,start,text\n"

// csvSink writes a line for each event, as in RFC 4180 except that lines end with LF. Fields without a value are empty.
// Texts are escaped (term.Escape), so that each event is one line.
type csvSink struct {
	w      io.Writer
	buf    []byte
	err    error
	begin  int64 // is subtracted
	places map[*event.Stack][]byte
	size   int // size of the texts in places
}

const (
	csvFlush     = 64 << 10
	csvMaxPlaces = 16 << 20 // maximum size of the texts that are kept, in bytes
)

func newCSVSink(w io.Writer, opt Options) *csvSink {
	s := &csvSink{w: w, places: map[*event.Stack][]byte{}}
	if !opt.Wall {
		s.begin = opt.Begin
	}
	s.buf = append(s.buf, csvHead...)
	return s
}

// Write implements Sink.
func (s *csvSink) Write(e *event.Event) error {
	b := strconv.AppendInt(s.buf, e.Time-s.begin, 10)
	b = append(append(b, ','), e.Kind.String()...)
	for _, id := range [...]uint64{e.G, e.Parent, e.By} {
		b = append(b, ',')
		if id != 0 {
			b = strconv.AppendUint(b, id, 10)
		}
	}
	b = csvText(append(b, ','), e.Reason)
	b = append(b, ',')
	if e.TID != 0 {
		b = strconv.AppendInt(b, int64(e.TID), 10)
	}
	b = append(b, ',')
	if p, ok := e.P.ID(); ok {
		b = strconv.AppendInt(b, int64(p), 10)
	}
	b = append(b, s.place(e.Stack)...)
	b = append(b, ',')
	if e.Value != 0 {
		b = strconv.AppendInt(b, e.Value, 10)
	}
	b = append(append(b, ','), e.State...)
	b = append(b, ',')
	if e.Origin != nil {
		b = csvText(b, e.Origin.Start.Func)
	}
	b = csvText(append(b, ','), e.Text)
	s.buf = append(b, '\n')
	if len(s.buf) >= csvFlush {
		s.flush()
	}
	return s.err
}

// place returns the columns of a stack, each preceded by a comma.
func (s *csvSink) place(stack *event.Stack) []byte {
	if stack == nil || len(stack.Frames) == 0 {
		return []byte(",,,")
	}
	if text, ok := s.places[stack]; ok {
		return text
	}
	f := &stack.Frames[0]
	text := csvText([]byte{','}, f.Func)
	text = append(csvText(append(text, ','), f.File), ',')
	if f.Line != 0 {
		text = strconv.AppendInt(text, int64(f.Line), 10)
	}
	if s.size > csvMaxPlaces {
		clear(s.places)
		s.size = 0
	}
	s.size += len(text)
	s.places[stack] = text
	return text
}

// csvText appends a field with a text.
func csvText(b []byte, text string) []byte {
	text = term.Escape(text)
	if !strings.ContainsAny(text, "\",") && !strings.HasPrefix(text, " ") {
		return append(b, text...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(text, `"`, `""`)...)
	return append(b, '"')
}

func (s *csvSink) flush() {
	if s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	s.buf = s.buf[:0]
}

// Close implements Sink.
func (s *csvSink) Close() error {
	s.flush()
	return s.err
}
