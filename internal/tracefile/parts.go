package tracefile

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export"
)

// MergeParts writes traces that one process has made, one after the other or overlapping as those of flight recorders do,
// as one Go trace. What several of them have is written once. Where one ends and the next one begins the trace says so by
// a message of the category "loupe", since what happened in between is missing.
func MergeParts(ctx context.Context, out *Output, paths []string, opt MergeOptions) (Converted, error) {
	var list []recording
	for _, path := range paths {
		rec, err := lookThrough(ctx, path)
		if err != nil {
			return Converted{}, err
		}
		list = append(list, rec)
	}
	if err := inOrder(list); err != nil {
		return Converted{}, err
	}
	sink, err := opt.Format.New(out, ofTrace(export.Options{Version: list[0].version}))
	if err != nil {
		return Converted{}, err
	}
	s := &splicer{ctx: ctx, sink: sink, alive: map[uint64]bool{}, maxMemory: opt.MaxMemory}
	s.done.Version = list[0].version
	for i := range list {
		err = s.add(&list[i])
		if IsDamage(err) && opt.Partial {
			s.note("%v; the part before the damage is included", err)
			err = nil
		}
		if err != nil {
			break
		}
	}
	if closeErr := sink.Close(); err == nil {
		err = closeErr
	}
	if outErr := out.Err(); outErr != nil {
		err = outErr
	}
	if err == nil {
		s.done.Notes = append(s.done.Notes, notes(sink)...)
	}
	return s.done, err
}

// A splicer is one run of MergeParts.
type splicer struct {
	ctx  context.Context
	sink export.Sink
	last uint64 // the last generation so far
	part int    // number of the part, from 1 on
	done Converted

	maxMemory int64 // see MergeOptions

	alive   map[uint64]bool // goroutines
	missing map[uint64]bool // those of the parts before that this part has not told of; nil when that is settled
	mark    string          // is to be written as soon as a goroutine runs
}

// add writes a recording, but for what there is already.
func (s *splicer) add(rec *recording) error {
	name := filepath.Base(rec.path)
	if rec.last().number <= s.last {
		s.note("%s contains nothing that the other files do not contain", rec.path)
		return nil
	}
	in, err := Open(s.ctx, rec.path, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	in.MaxMemory = s.maxMemory
	var ev *Events
	shared := slices.IndexFunc(rec.generations, func(g generation) bool { return g.number > s.last })
	if shared > 0 {
		s.note("%d of %s of %s %s also in the other files", shared, english.Count(len(rec.generations), "generation"), rec.path, english.Pick(shared, "is", "are"))
		rest := after(interruptible{s.ctx, in}, s.last)
		defer rest.Close()
		ev, err = in.events(s.ctx, rest)
	} else {
		ev, err = in.Events(s.ctx)
	}
	if err != nil {
		return err
	}
	s.part++
	first := true
	for batch, err := range ev.Batches() {
		if n := int(ev.Stats().Generations); n > 0 {
			s.last = rec.generations[min(shared+n, len(rec.generations))-1].number
		}
		if err != nil {
			return err
		}
		if s.done.Read == 0 {
			s.done.First, s.done.Wall = batch[0].Time, ev.Wall()
		}
		if first && s.part > 1 {
			if err := s.begin(batch[0].Time, name); err != nil {
				return err
			}
		}
		first = false
		if s.missing != nil && ev.Stats().Generations > 1 {
			if err := s.settle(batch[0].Time); err != nil {
				return err
			}
		}
		for i := range batch {
			if err := s.take(&batch[i]); err != nil {
				return err
			}
		}
	}
	return s.settle(s.done.Last)
}

func (s *splicer) note(format string, args ...any) {
	s.done.Notes = append(s.done.Notes, fmt.Sprintf(format, args...))
}

// begin begins another part than the first one.
func (s *splicer) begin(t int64, name string) error {
	gap := time.Duration(max(t-s.done.Last, 0))
	s.mark = fmt.Sprintf("part %d, %s, begins %v after the last event before it", s.part, name, gap)
	s.note("%s", s.mark)
	s.missing = maps.Clone(s.alive)
	// How many events are missing is not known, but that there may be some.
	return s.sink.Write(&event.Event{Time: t, Kind: event.Lost})
}

// settle ends the goroutines that have ended between two parts. A generation tells of all goroutines that are alive, so
// this is known when the first one of the part is over.
func (s *splicer) settle(t int64) error {
	gone := slices.Sorted(maps.Keys(s.missing))
	s.missing = nil
	for _, g := range gone {
		delete(s.alive, g)
		if err := s.write(&event.Event{Time: t, Kind: event.GoDestroy, G: g}); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		s.note("%s ended before part %d began, without an event", english.Count(len(gone), "goroutine"), s.part)
	}
	return nil
}

// take takes an event of a part.
func (s *splicer) take(e *event.Event) error {
	s.done.Read++
	switch e.Kind {
	case event.GoCreate, event.GoStatus:
		s.alive[e.G] = true
	case event.GoDestroy:
		delete(s.alive, e.G)
	}
	if s.missing != nil {
		delete(s.missing, e.G)
	}
	if err := s.write(e); err != nil {
		return err
	}
	if s.mark == "" || e.Kind != event.GoStart {
		return nil
	}
	log := event.Event{Time: e.Time, Kind: event.UserLog, G: e.G, TID: e.TID, P: e.P, Reason: "loupe", Text: s.mark}
	s.mark = ""
	return s.write(&log)
}

func (s *splicer) write(e *event.Event) error {
	s.done.Written++
	s.done.Last = max(s.done.Last, e.Time)
	return s.sink.Write(e)
}
