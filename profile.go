package loupe

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/stream"
)

// A ProfileType is a type of profile that is computed from events.
type ProfileType string

// The types of profiles. The first value of a sample is a count, the second one a time in nanoseconds.
const (
	ProfileCreate ProfileType = "create" // goroutines that were created, by the stack that created them; no time
	ProfileBlock  ProfileType = "block"  // waits for channels, locks and other types of package sync, by the stack that waited
	ProfileMutex  ProfileType = "mutex"  // waits for locks, by the stack that unlocked
	ProfileSched  ProfileType = "sched"  // waits of runnable goroutines for a processor, by the stack at which they resumed
)

// ProfileTypes returns all types of profiles.
func ProfileTypes() []ProfileType {
	var types []ProfileType
	for _, t := range stream.ProfileTypes() {
		types = append(types, ProfileType(t.Name))
	}
	return types
}

// Kinds returns the kinds of events that the profile requires, for Options.Kinds. It is zero for unknown types.
func (t ProfileType) Kinds() event.Kinds {
	kind, _ := stream.ProfileTypeOf(string(t))
	return kind.Kinds
}

// CountsWaits reports whether the profile counts waits, so that ProfileOptions.Reasons applies.
func (t ProfileType) CountsWaits() bool {
	kind, _ := stream.ProfileTypeOf(string(t))
	return kind.Waits != nil
}

// ProfileOptions configures [Profile] and [Session.Profile].
type ProfileOptions struct {
	Type ProfileType // required

	// Reasons selects the waits that are counted: those whose wait reason contains one of these texts, ignoring case. Empty
	// means those that ProfileBlock or ProfileMutex describe. Other types ignore it.
	Reasons []string
}

// An EventProfile is a profile of events. Its comments report what it does not count.
type EventProfile struct {
	*profile.Profile

	Counted   uint64 // goroutines, waits or starts that are counted
	Uncertain uint64 // waits during which events were lost; they are not counted
}

// Profile computes a profile of a stream of events when the events end. They come from a session, for which
// [Session.Profile] is simpler, or from another source such as a trace.Reader. Events of kinds that the profile does not
// require are ignored. A wait is counted when it ends.
//
// The time and the duration of the profile are those of the events. The error reports that the type is unknown.
func Profile(events iter.Seq[*event.Event], opt ProfileOptions) (*EventProfile, error) {
	kind, ok := stream.ProfileTypeOf(string(opt.Type))
	if !ok {
		return nil, unknownProfile(opt.Type)
	}
	prof := stream.NewProfile(kind, opt.Reasons)
	first, last := int64(0), int64(0)
	for e := range events {
		if first == 0 {
			first = e.Time
		}
		last = max(last, e.Time)
		prof.Add(e)
	}
	return build(prof, time.Unix(0, first), time.Duration(last-first))
}

// Profile computes a profile of the events of the session when they end, see [Session.Events]. The context of [Attach] limits
// the duration. Options.Kinds must include the kinds of the type; other kinds are
// ignored, and only cost the target time.
//
// The error reports that the type is unknown or requires kinds that the session does not observe. Afterwards, [Session.Err]
// reports whether the events ended early, and [Session.Stats] how many were lost.
func (s *Session) Profile(opt ProfileOptions) (*EventProfile, error) {
	kind, ok := stream.ProfileTypeOf(string(opt.Type))
	if !ok {
		return nil, unknownProfile(opt.Type)
	}
	if missing := kind.Kinds.Without(s.opt.want().Kinds); !missing.IsEmpty() {
		return nil, fmt.Errorf("profile %s requires the event kinds %s: add them to Options.Kinds", opt.Type, missing)
	}
	prof := stream.NewProfile(kind, opt.Reasons)
	began := time.Now()
	for e := range s.Events() {
		prof.Add(e)
	}
	ended := time.Now()
	if detached := s.detached.Load(); detached != nil { // the rest of the events was in the buffer
		ended = *detached
	}
	return build(prof, began, ended.Sub(began))
}

func unknownProfile(t ProfileType) error {
	var names []string
	for _, t := range ProfileTypes() {
		names = append(names, string(t))
	}
	return fmt.Errorf("unknown profile type %q: must be one of %s", t, strings.Join(names, ", "))
}

func build(prof *stream.Profile, began time.Time, length time.Duration) (*EventProfile, error) {
	doc := prof.Build(began, length)
	p := doc.Profile()
	if err := p.CheckValid(); err != nil {
		return nil, err
	}
	return &EventProfile{Profile: p, Counted: doc.Counted, Uncertain: doc.Uncertain}, nil
}
