package timeline

import (
	"strconv"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
)

// Sink writes what is drawn. Times are in nanoseconds since the Unix epoch and never before base. What the pointers point
// to is valid during the call only, but for origins and stacks.
type Sink interface {
	// Start comes first: the time of the first event and the ID of the process, 0 when it is not known.
	Start(base int64, pid int32)
	// Open announces a track before anything is on it. It comes once more for a goroutine whose origin becomes known.
	Open(t Track, d *Description)
	// Begin begins a slice, nested in those that are open on the track.
	Begin(at int64, t Track, s *Slice)
	// End ends the innermost slice that is open on a track. name is that of the slice for all tracks but those of
	// goroutines and threads.
	End(at int64, t Track, name Name, how Ending)
	// Instant is something without length.
	Instant(at int64, t Track, s *Slice)
	// Counter gives a counter a value.
	Counter(at int64, c Counter, value int64)
}

// TrackKind says what a track is for.
type TrackKind uint8

// The kinds of tracks.
const (
	ProcessTrack   TrackKind = iota // what belongs to no goroutine; Of is 0
	GoroutineTrack                  // Of is the goroutine's ID
	RegionTrack                     // Of is the goroutine's ID
	ThreadTrack                     // Of is the kernel's thread ID
	TaskTrack                       // Of is the task's ID
	GCTrack                         // Of is 0
	STWTrack                        // Of is 0
	LostTrack                       // Of is 0
)

// Category returns what all slices of a track are; Unknown for tracks of which the slices are of several sorts.
func (k TrackKind) Category() Category {
	switch k {
	case RegionTrack:
		return Region
	case TaskTrack:
		return Task
	case GCTrack:
		return GC
	case STWTrack:
		return STW
	case LostTrack:
		return Loss
	case ThreadTrack:
		return OnThread
	}
	return Unknown
}

// Track is a line of slices.
type Track struct {
	ID   uint64 // unique among the tracks, counting from 1
	Of   uint64
	Kind TrackKind
}

// Description is what a track is called and belongs to.
type Description struct {
	Parent uint64        // the track that a region's belongs to; else 0
	Origin *event.Origin // of a goroutine; nil when it is not known
	Type   string        // of a task
}

// Name is the name of a slice: Lead, goroutine and Text one after the other.
type Name struct {
	Lead string // one of few constants
	G    uint64 // when not 0, "g 18 "
	Text string // may come from the program
	Once bool   // hardly comes twice, so it is not worth keeping
}

// AppendTo appends the name as text, in which what could mislead a terminal or a reader is spelled out (term.Escape).
func (n *Name) AppendTo(b []byte) []byte {
	b = append(b, n.Lead...)
	if n.G != 0 {
		b = append(b, 'g', ' ')
		b = strconv.AppendUint(b, n.G, 10)
		if n.Text != "" {
			b = append(b, ' ')
		}
	}
	return append(b, term.Escape(n.Text)...)
}

// Category is what sort of thing a slice or an instant is.
type Category uint8

// The categories. The first ones are states.
const (
	Unknown Category = iota
	Running
	Runnable
	Syscall
	Blocked
	Wake    // made another goroutine runnable
	Create  // created another goroutine
	Channel // used a channel
	Lock
	GC
	STW
	Loss
	OnThread // a goroutine on a thread
	Task
	Region
	Log
	Sample
	Process
	NumCategories
)

var categoryNames = [NumCategories]string{
	Unknown: "unknown", Running: "running", Runnable: "runnable", Syscall: "syscall", Blocked: "blocked", Wake: "wake",
	Create: "create", Channel: "channel", Lock: "lock", GC: "gc", STW: "stw", Loss: "lost", OnThread: "thread", Task: "task",
	Region: "region", Log: "log", Sample: "sample", Process: "process",
}

// String returns the category's name.
func (c Category) String() string { return categoryNames[c] }

// Role is what an event has to do with a flow.
type Role uint8

// The roles.
const (
	NoFlow Role = iota
	FlowBegins
	FlowEnds
)

// Slice is what is said of a slice at its beginning, or of an instant.
type Slice struct {
	Name     Name
	Category Category
	Role     Role
	Flow     uint64 // the flow's ID, for a Role
	Stack    *event.Stack
	args     [maxArgs]Arg
	numArgs  int
}

const maxArgs = 4

// Args returns what else is said.
func (s *Slice) Args() []Arg { return s.args[:s.numArgs] }

func (s *Slice) add(a Arg) {
	s.args[s.numArgs] = a
	s.numArgs++
}

// number adds an argument unless it is zero.
func (s *Slice) number(k Key, v int64) {
	if v != 0 {
		s.add(Arg{Key: k, Number: v})
	}
}

// text adds an argument unless it is empty.
func (s *Slice) text(k Key, v string) {
	if v != "" {
		s.add(Arg{Key: k, Text: v, IsText: true})
	}
}

// Key says what an argument is.
type Key uint8

// The keys.
const (
	KeyG         Key = iota // the goroutine that was created or woken, or that did it
	KeyBy                   // the goroutine that did it
	KeyThread               // the kernel's ID
	KeyP                    // the processor's ID
	KeyReason               // why
	KeyTraceText            // the reason in the words of the execution tracer
	KeyWaited               // nanoseconds: how long it was so already
	KeyObject               // an address
	KeyCapacity             // of a channel
	KeyCases                // of a select
	KeyLost                 // how many events
	KeyTask                 // the ID of a task
	KeyParent               // the ID of a task's parent
	KeyLogged               // the category of a message
	KeyCut                  // see Ending
	KeyUncertain            // see Ending
	NumKeys
)

var keyNames = [NumKeys]string{
	KeyG: "goroutine", KeyBy: "by_goroutine", KeyThread: "thread", KeyP: "P", KeyReason: "reason", KeyTraceText: "trace_reason",
	KeyWaited: "waited_ns", KeyObject: "object", KeyCapacity: "capacity", KeyCases: "cases", KeyLost: "lost_events",
	KeyTask: "task", KeyParent: "parent_task", KeyLogged: "category", KeyCut: "cut", KeyUncertain: "uncertain",
}

// String returns the key as it is shown.
func (k Key) String() string { return keyNames[k] }

// Arg is something that is said of a slice: a number, an address (KeyObject), or a text, which may come from the program.
type Arg struct {
	Key    Key
	IsText bool
	Number int64
	Text   string
}

// Ending says how a slice came to its end, when not by the event that ends such slices.
type Ending uint8

// The endings.
const (
	Seen           Ending = iota
	Uncertain             // events were lost, or are not observed, between its beginning and its end
	CutMissed             // the next event shows that its end was not seen; it lies before
	CutLost               // it ends where events began to be missing
	CutObservation        // it was not over when the observation ended
	CutExec               // the process replaced itself by another program
	CutGoroutine          // its goroutine ended
	CutOuter              // the region around it ended
	NumEndings
)

var endings = [NumEndings]struct {
	key  Key
	text string
}{
	Uncertain:      {KeyUncertain, "events in between were lost or are not observed"},
	CutMissed:      {KeyCut, "its end was not seen"},
	CutLost:        {KeyCut, "the events that follow were lost"},
	CutObservation: {KeyCut, "the observation ended"},
	CutExec:        {KeyCut, "the process executed another program"},
	CutGoroutine:   {KeyCut, "the goroutine ended"},
	CutOuter:       {KeyCut, "the region around it ended"},
}

// Note returns what is to be said of an ending; false when it is the usual one.
func (e Ending) Note() (key Key, text string, ok bool) {
	return endings[e].key, endings[e].text, e != Seen
}

// Counter is a number that changes with time.
type Counter uint8

// The counters.
const (
	Alive        Counter = iota // goroutines
	NowRunning                  // goroutines
	NowRunnable                 // goroutines
	Heap                        // bytes
	HeapGoal                    // bytes
	AllocBytes                  // bytes since the program started
	AllocObjects                // objects since the program started
	NumCounters
)

var counterNames = [NumCounters]string{Alive: "goroutines alive", NowRunning: "goroutines running", NowRunnable: "goroutines runnable",
	Heap: "heap", HeapGoal: "heap goal", AllocBytes: "allocated bytes", AllocObjects: "allocated objects"}

// String returns the counter's name.
func (c Counter) String() string { return counterNames[c] }

// Bytes reports whether the counter is a number of bytes.
func (c Counter) Bytes() bool { return c == Heap || c == HeapGoal || c == AllocBytes }

// Label returns what a goroutine is called: "g 18 main.worker".
func Label(g uint64, o *event.Origin) Name {
	n := Name{G: g, Once: true}
	if o != nil {
		n.Text = o.Start.Func
	}
	return n
}
