package tracefile

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/loupe-go/loupe/trace/raw"
)

// A generation is a piece of a trace, as the runtime divides it. A process numbers its generations from 1 on, across all
// its traces.
type generation struct {
	number uint64
	begin  uint64 // the earliest time of its batches, by the process's own clock
}

// A recording is a trace of a process in which it may have made others.
type recording struct {
	path        string
	version     raw.Version
	generations []generation
}

func (r *recording) first() generation { return r.generations[0] }
func (r *recording) last() generation  { return r.generations[len(r.generations)-1] }

// lookThrough finds the generations of a file. What follows damage is not looked at: whoever reads the events will meet it.
func lookThrough(ctx context.Context, path string) (recording, error) {
	rec := recording{path: path}
	if path == Stdin {
		return rec, fmt.Errorf("cannot merge standard input: each trace is read twice; use files")
	}
	in, err := Open(ctx, path, nil)
	if err != nil {
		return rec, err
	}
	defer in.Close()
	if err := in.NeedWire(); err != nil {
		return rec, err
	}
	r, err := raw.NewReader(interruptible{ctx, in})
	if err != nil {
		return rec, in.noTrace(err)
	}
	if rec.version = r.Version(); rec.version.V1() {
		return rec, fmt.Errorf("%s has the format of %s: merging parts of a trace requires Go 1.22 or later; --format perfetto shows several traces side by side",
			path, rec.version)
	}
	for ev, err := range r.All() {
		if err != nil {
			if err := ctx.Err(); err != nil {
				return rec, err
			}
			break
		}
		if ev.Type == raw.EvEventBatch {
			rec.note(ev.Args[0], ev.Args[2])
		}
	}
	if len(rec.generations) == 0 {
		return rec, fmt.Errorf("%s contains only a header", path)
	}
	return rec, nil
}

// note takes a batch of a generation that begins at a time.
func (r *recording) note(number, time uint64) {
	if n := len(r.generations); n > 0 && r.generations[n-1].number == number {
		g := &r.generations[n-1]
		g.begin = min(g.begin, time)
		return
	}
	r.generations = append(r.generations, generation{number, time})
}

// inOrder sorts recordings by time, and refuses those that cannot be of one process: the same generation is the same in
// all, and a later one has a higher number.
func inOrder(list []recording) error {
	slices.SortStableFunc(list, func(a, b recording) int {
		return cmp.Or(cmp.Compare(a.first().begin, b.first().begin), cmp.Compare(len(a.generations), len(b.generations)))
	})
	known := map[uint64]uint64{}
	latest, latestOf := generation{}, ""
	for i := range list {
		r := &list[i]
		if r.version != list[0].version {
			return fmt.Errorf("%s has the format of %s and %s that of %s: they are not from the same process", list[0].path, list[0].version, r.path, r.version)
		}
		for _, g := range r.generations {
			begin, again := known[g.number]
			switch {
			case again && begin != g.begin:
				return fmt.Errorf("%s has a different generation %d than the other files: it is not from the same process; --format perfetto shows them side by side", r.path, g.number)
			case !again && i > 0 && (g.number < latest.number) != (g.begin < latest.begin):
				return fmt.Errorf("the times of generation %d of %s do not match generation %d of %s: they are not from the same process; --format perfetto shows them side by side",
					g.number, r.path, latest.number, latestOf)
			}
			known[g.number] = g.begin
		}
		if last := r.last(); last.number > latest.number {
			latest, latestOf = last, r.path
		}
	}
	return nil
}

// after returns a trace without the generations up to a number.
func after(in io.Reader, last uint64) *io.PipeReader {
	r, w := io.Pipe()
	go func() { w.CloseWithError(dropUntil(w, in, last)) }()
	return r
}

// dropUntil copies a trace without the generations up to a number.
func dropUntil(out io.Writer, in io.Reader, last uint64) error {
	r, err := raw.NewReader(in)
	if err != nil {
		return err
	}
	r.KeepWidths = true
	w, err := raw.NewWriter(out, r.Version())
	if err != nil {
		return err
	}
	keep := false
	for ev, err := range r.All() {
		if err != nil {
			return cmp.Or(w.Close(), err)
		}
		switch ev.Type {
		case raw.EvEventBatch:
			keep = ev.Args[0] > last
		case raw.EvExperimentalBatch:
			keep = ev.Args[1] > last
		}
		if !keep {
			continue
		}
		if err := w.WriteEvent(ev); err != nil {
			return err
		}
	}
	return w.Close()
}
