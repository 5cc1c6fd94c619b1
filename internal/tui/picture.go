package tui

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// Picture is what was seen at one moment. It does not change.
type Picture struct {
	Query Query // that it answers

	Now      int64         // nanoseconds since the Unix epoch
	Elapsed  time.Duration // since the observation began
	Interval time.Duration // that differences are of; 0 for the first picture, which has none

	Totals, TotalsDelta   sched.Totals
	Runtime               sched.Runtime
	Latency, LatencyDelta sched.Latency
	Sites                 []SiteRow
	Growth                Growth // of all goroutines
	Health                Health

	LiveTrend, EventTrend []float64 // goroutines, and events by second, of the last pictures

	Detail Detail
}

// Detail is what only some pages show: what Query asks for.
type Detail struct {
	Groups     []GroupRow
	Places     []PlaceRow
	Goroutines []sched.Goroutine // sorted; at most Query.Limit
	Matched    int               // how many there are
	One        One
}

// Growth is by how much a number of goroutines has changed in the last minute, or as long as it is known.
type Growth struct {
	PerMinute float64
	Known     bool // it was watched for long enough to tell
}

// SiteRow is the goroutines of one origin. Delta has the differences to the picture before.
type SiteRow struct {
	sched.Site
	Delta  sched.Flow
	Growth Growth
}

// GroupRow is the live goroutines in one state, for waiting ones with one reason.
type GroupRow struct {
	State     event.State // empty when it is not known
	Reason    string
	Count     uint64
	Uncertain uint64 // of them, those without an event since the last loss
	Time      sched.Nanos
	Oldest    time.Duration // the longest time in the state

	OldestInDoubt bool // events were lost since that one's last

	// Of waits for the reason that ended in the interval.
	Waits    float64 // by second
	MeanWait time.Duration
}

// At is a line of the program where goroutines wait, and what for.
type At struct {
	Frame  event.Frame // the innermost of the program, not of the Go distribution; zero when no stack was recorded
	Other  bool        // stands for more stacks than can be told apart
	Reason string
}

// PlaceRow is the waits at one line. Of several stacks that lead there, Stack is the one with the most time.
type PlaceRow struct {
	At     At
	Stack  *event.Stack // nil when it was not recorded
	Stacks int

	Count   uint64        // waits that are over
	Time    sched.Nanos   // they and the waits under way took
	Done    sched.Nanos   // only they took
	Max     time.Duration // the longest of them
	Now     uint64        // goroutines that wait there
	CountIn uint64        // Count and Time of the last Interval
	TimeIn  sched.Nanos

	Interval time.Duration
}

// One is a single goroutine.
type One struct {
	sched.Goroutine
	Alive   bool          // else only the history tells of it
	History []event.Event // the oldest first

	Creators     []Creator     // the parent first, then its parent, as far as they are known
	WakerOrigin  *event.Origin // nil if it has ended and its creation is not kept
	HistoryHolds int           // events that are kept of the whole program
}

// Creator is a goroutine that created another one.
type Creator struct {
	ID     uint64
	Origin *event.Origin // nil if it has ended and its creation is not kept
}

// Subject is what a page is about.
type Subject uint8

// The subjects.
const (
	AboutSites Subject = iota
	AboutGroups
	AboutPlaces
	AboutGoroutines
	AboutLatency
	AboutOne
	AboutSummary // sites, groups and places
)

// Query is what a picture is taken for. It is comparable.
type Query struct {
	About  Subject
	System bool   // the runtime's own goroutines too
	Filter string // only goroutines with this text in a function, a reason or an ID
	Module string // path of the main module, which tells its own functions from others

	Scope   Scope // which goroutines
	Order   int   // of goroutineOrders
	Reverse bool
	Limit   int

	ID uint64 // the one goroutine
}

// Scope chooses goroutines by what they have in common.
type Scope struct {
	Kind   ScopeKind
	Site   int // Site.ID
	At     At
	State  event.State
	Reason string // for waiting goroutines
}

// ScopeKind says what goroutines have in common.
type ScopeKind uint8

// The kinds of scopes.
const (
	EveryGoroutine ScopeKind = iota
	OfSite
	OfPlace // they wait at one line
	OfGroup
)
