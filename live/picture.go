package live

import (
	"time"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// A Picture is the state of a program at one moment, with the differences to an earlier picture of the same [Sampler] or
// [Observation]. Later events do not change it.
//
// Fields whose name ends in Delta hold differences: see the Sub methods of package sched. They cover Interval. If there is no
// earlier picture to compare with, they cover the whole observation.
type Picture struct {
	Query Query // the query that was passed to Take

	Now      int64         // time of the picture, in nanoseconds since the Unix epoch
	Elapsed  time.Duration // time since the start of the observation
	Interval time.Duration // time since the earlier picture; 0 if there is no earlier picture to compare with

	Totals       sched.Totals  // sums since the start of the observation
	TotalsDelta  sched.Totals  // change of Totals in the interval
	Runtime      sched.Runtime // garbage collections, STW pauses and the heap since the start of the observation
	Latency      sched.Latency // scheduler latencies since the start of the observation
	LatencyDelta sched.Latency // scheduler latencies in the interval
	Sites        []SiteRow     // sorted by Live in descending order
	Growth       Growth        // of the number of all goroutines
	Health       Health        // accuracy of the observation

	Memory Memory  // memory statistics of the runtime, if the source is a MemorySource
	Allocs *Allocs // nil unless Options.Allocs is set

	// The trends have one value for each of the last 120 intervals, oldest first.
	LiveTrend  []float64 // live goroutines at the end of the interval
	EventTrend []float64 // events per second, see NewEvents

	Detail Detail // the details that Query selects
}

// NewEvents returns the number of events in the interval, without the GoStatus events of goroutines that were already alive.
func (p *Picture) NewEvents() uint64 {
	return p.TotalsDelta.Events - min(p.TotalsDelta.Events, p.TotalsDelta.Kinds[event.GoStatus])
}

// Wakeups returns the number of GoUnblock events in the interval: how often a goroutine became runnable after a wait.
func (p *Picture) Wakeups() uint64 { return p.TotalsDelta.Kinds[event.GoUnblock] }

// PerSecond converts a count of the interval to a rate per second. It returns 0 if Interval is 0.
func (p *Picture) PerSecond(count uint64) float64 { return sched.Rate(count, p.Interval) }

// Health is the accuracy of an observation.
type Health struct {
	Lost       uint64          // events that happened and were not delivered, since the start of the source
	Unreadable uint64          // part of Lost: the target's memory could not be read
	Warnings   []event.Warning // messages for the user
}

// Detail is the part of a [Picture] that depends on [Query].About. Fields that are not selected are empty.
type Detail struct {
	// Groups is set for AboutGroups and AboutSummary. It is sorted by Count in descending order.
	Groups []GroupRow

	// Places is sorted by Time in descending order. It is set for AboutPlaces, AboutSummary, and AboutGoroutines with a scope
	// of kind OfPlace. It is also set for the other subjects if the program has at most 1,000 places.
	Places []PlaceRow

	// Goroutines is set for AboutGoroutines. It is sorted by Query.Order, and has at most Query.Limit goroutines.
	Goroutines []sched.Goroutine

	// Matched is the number of goroutines that match the query. It can exceed Query.Limit.
	Matched int

	// One is set for AboutOne.
	One One
}

// Growth is the rate at which a number of goroutines changes. It is measured over about one minute, or since the start of the
// observation if that is shorter.
type Growth struct {
	PerMinute float64 // goroutines per minute; negative if the number decreases
	Known     bool    // the number has been observed for at least 5 s; otherwise PerMinute is 0
}

// A SiteRow is the goroutines of one origin.
type SiteRow struct {
	sched.Site
	Delta  sched.Flow // difference to the earlier picture
	Growth Growth     // of Live

	// Allocs is the allocations of the goroutines since the source began, and AllocsDelta those since the earlier picture. They are
	// zero unless Options.Allocs is set. Picture.Allocs has the interval of AllocsDelta.
	Allocs, AllocsDelta allocs.Sums
}

// A GroupRow is the live goroutines in one state. Waiting goroutines are further divided by wait reason.
type GroupRow struct {
	State     event.State   // empty if unknown
	Reason    string        // wait reason, as sched.Place.Reason; empty if State is not StateWaiting
	Count     uint64        // number of goroutines
	Uncertain uint64        // part of Count: goroutines without an event since the last loss
	Time      sched.Nanos   // total time in the state of the goroutines that are not uncertain
	Oldest    time.Duration // longest time of a goroutine in the state, uncertain or not

	OldestInDoubt bool // the goroutine of Oldest is uncertain: events were lost since its last event

	Waits    float64       // waits for Reason that ended, per second, since the earlier picture
	MeanWait time.Duration // mean duration of these waits; 0 if there were none
}

// An At is a line of the program at which goroutines wait, together with the wait reason.
type At struct {
	// Frame is the innermost frame that does not belong to the Go distribution, or the innermost frame if all of them do. It is
	// zero if no stack was recorded.
	Frame event.Frame

	Other  bool   // combines the stacks beyond sched.Options.MaxPlaces; Frame is zero
	Reason string // as sched.Place.Reason
}

// A PlaceRow is the waits at one [At]. Several stacks can lead to the same line. Rows are in the order of their stacks with the
// most time, including waits that have not ended.
type PlaceRow struct {
	At     At           // the line and the wait reason
	Stack  *event.Stack // the stack with the most time; nil if it was not recorded
	Stacks int          // number of different stacks

	// Counts and times since the start of the observation.
	Count uint64        // waits that have ended
	Time  sched.Nanos   // total duration of all waits, including those that have not ended
	Done  sched.Nanos   // total duration of the waits that have ended
	Max   time.Duration // the longest duration of a wait that has ended
	Now   uint64        // goroutines that are waiting now

	CountIn  uint64        // Count in the last Interval
	TimeIn   sched.Nanos   // Time in the last Interval
	Interval time.Duration // time since the earlier picture with places, or since the start of the observation
}

// A One is a single goroutine, alive or ended.
type One struct {
	// Goroutine is the state of the goroutine. If it is not alive, only ID, Parent, Origin, CreationStack, Created and Seen can be
	// set, as far as they are known.
	sched.Goroutine

	Alive   bool          // whether the goroutine is alive
	History []event.Event // its last events, oldest first; at most Query.Limit

	Creators     []Creator     // the parent, its parent and so on, as far as they are known; at most 8
	WakerOrigin  *event.Origin // origin of the goroutine Waker; nil if unknown
	HistoryHolds int           // capacity of the history, in events of the whole program; 0 if the history is disabled
}

// A Creator is a goroutine that created another goroutine.
type Creator struct {
	ID     uint64        // ID of the goroutine
	Origin *event.Origin // its origin; nil if unknown
}

// A Subject selects the details of a picture.
type Subject uint8

// The subjects of queries.
const (
	AboutSites      Subject = iota // no details: all pictures contain the sites
	AboutGroups                    // Detail.Groups
	AboutPlaces                    // Detail.Places
	AboutGoroutines                // Detail.Goroutines and Detail.Matched
	AboutLatency                   // no details: all pictures contain the latencies
	AboutOne                       // Detail.One
	AboutSummary                   // Detail.Groups and Detail.Places
)

// A Query selects the details of a picture. Two queries are equal if they are equal by ==. The zero value selects no details.
type Query struct {
	// About selects which fields of Detail are set.
	About Subject
	// System includes the goroutines that belong to the runtime itself, for AboutGroups, AboutSummary and AboutGoroutines.
	System bool

	// Filter is a text that goroutines must match, for AboutGoroutines: see Matcher.Goroutine. Empty means all goroutines.
	Filter string

	// Module is the path of the main module. Its functions belong to the program and not to the Go distribution: see At.Frame.
	Module string

	// Scope, Order and Reverse apply to AboutGoroutines.
	Scope   Scope       // only goroutines in this scope
	Order   sched.Order // sort order
	Reverse bool        // sort in the opposite order

	// Limit is the maximum number of goroutines (AboutGoroutines) or of events (AboutOne). Zero means no limit.
	Limit int

	ID uint64 // ID of the goroutine, for AboutOne
}

// A Scope is a set of goroutines that have something in common. The zero value contains all goroutines.
type Scope struct {
	Kind   ScopeKind   // what the goroutines have in common
	Site   int         // a sched.Site.ID, for OfSite
	At     At          // the line and the wait reason, for OfPlace; At.Other is ignored
	State  event.State // for OfGroup
	Reason string      // wait reason, for OfGroup; used only if State is StateWaiting
}

// A ScopeKind is what the goroutines of a [Scope] have in common.
type ScopeKind uint8

// The kinds of scopes.
const (
	EveryGoroutine ScopeKind = iota // all goroutines
	OfSite                          // goroutines of Scope.Site
	OfPlace                         // goroutines that wait at the line Scope.At.Frame for Scope.At.Reason
	OfGroup                         // goroutines in Scope.State, and waiting for Scope.Reason
)
