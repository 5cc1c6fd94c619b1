package tracefile

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/trace/raw"
)

// Align says how the times of several traces are brought together.
type Align string

// The ways.
const (
	AlignAuto  Align = "auto"  // by the time of day if all traces tell it, else by their beginnings
	AlignWall  Align = "wall"  // by the time of day, which traces of Go 1.25 and later and recordings of Loupe have
	AlignBegin Align = "begin" // as if all had begun at the same moment
)

// MergeOptions say how traces are put together.
type MergeOptions struct {
	Format    *export.Format // one of timelines for MergeProcesses, export.Go or export.Text for MergeParts
	Partial   bool           // take of a damaged input what precedes the damage, instead of giving up
	MaxMemory int64          // bounds the memory that reading an input takes, in bytes; 0 means trace.DefaultMaxMemory

	// For MergeProcesses.
	Align   Align
	Threads bool     // tracks for threads too
	Names   []string // of the processes, one for each input
}

// A part is one of several inputs.
type part struct {
	path    string
	version raw.Version
	first   int64 // time of the first event
	wall    bool
	empty   bool
}

// lookAt reads the beginning of an input.
func lookAt(ctx context.Context, path string, maxMemory int64) (part, error) {
	p := part{path: path, empty: true}
	in, err := Open(ctx, path, nil)
	if err != nil {
		return p, err
	}
	defer in.Close()
	in.MaxMemory = maxMemory
	ev, err := in.Events(ctx)
	if err != nil {
		return p, err
	}
	p.version = ev.Version()
	err = ev.Each(func(e *event.Event) error {
		p.empty, p.first, p.wall = false, e.Time, ev.Wall()
		return errStop
	})
	return p, err
}

// lookAtAll looks at all inputs. With opt.Partial, one that is damaged from the beginning on has no event.
func lookAtAll(ctx context.Context, paths []string, opt *MergeOptions) ([]part, error) {
	var parts []part
	for _, path := range paths {
		if path == Stdin {
			return nil, fmt.Errorf("cannot merge standard input: each trace is read twice; use files")
		}
		p, err := lookAt(ctx, path, opt.MaxMemory)
		if err != nil && !(opt.Partial && IsDamage(err)) {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// MergeProcesses writes the traces of several processes as one, each a process of its own.
func MergeProcesses(ctx context.Context, out *Output, paths []string, opt MergeOptions) (Converted, error) {
	parts, err := lookAtAll(ctx, paths, &opt)
	if err != nil {
		return Converted{}, err
	}
	m := merger{ctx: ctx, opt: opt}
	m.done.Version = parts[0].version
	if err := m.align(parts); err != nil {
		return Converted{}, err
	}
	join, err := newJoin(out, opt.Format)
	if err != nil {
		return Converted{}, err
	}
	for i := range parts {
		err := m.add(&parts[i], join.part(), int32(i+1), opt.Names[i])
		switch {
		case out.Err() != nil:
			return m.done, out.Err()
		case IsDamage(err) && opt.Partial:
			m.note("%v; the part before the damage is included", err)
		case err != nil:
			return m.done, err
		}
	}
	return m.done, join.close()
}

// A merger is one run of MergeProcesses.
type merger struct {
	ctx  context.Context
	opt  MergeOptions
	wall bool
	base int64 // the beginning of all
	done Converted
}

// align decides how times are brought together, and tells it.
func (m *merger) align(parts []part) error {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.empty })
	without := slices.IndexFunc(parts, func(p part) bool { return !p.wall })
	m.wall = m.opt.Align != AlignBegin && without < 0 && len(parts) > 0
	switch {
	case len(parts) == 0:
		return nil
	case m.opt.Align == AlignWall && without >= 0:
		return fmt.Errorf("%s has no time of day, unlike traces of Go 1.25 and later and recordings of Loupe; use --align begin to start all traces at the same moment", parts[without].path)
	case m.wall:
		m.base = slices.MinFunc(parts, func(a, b part) int { return int(min(max(a.first-b.first, -1), 1)) }).first
		for _, p := range parts {
			m.note("%s starts %v after the first trace, by the time of day", p.path, time.Duration(p.first-m.base))
		}
		m.done.Wall = true
	default:
		m.base = parts[0].first
		m.done.Wall = parts[0].wall
		if m.opt.Align == AlignBegin {
			m.note("all traces are shown as started at the same moment")
			break
		}
		m.note("all traces are shown as started at the same moment: %s has no time of day, unlike traces of Go 1.25 and later and recordings of Loupe",
			parts[without].path)
	}
	m.done.First = m.base
	m.done.Last = m.base
	return nil
}

func (m *merger) note(format string, args ...any) {
	m.done.Notes = append(m.done.Notes, fmt.Sprintf(format, args...))
}

// add writes one of the traces.
func (m *merger) add(p *part, w io.WriteCloser, pid int32, name string) error {
	in, err := Open(m.ctx, p.path, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	in.MaxMemory = m.opt.MaxMemory
	ev, err := in.Events(m.ctx)
	if err != nil {
		return err
	}
	sink, err := m.opt.Format.New(w, ofTrace(export.Options{Version: p.version, Process: name, Threads: m.opt.Threads}))
	if err != nil {
		return err
	}
	shift := int64(0)
	if !m.wall {
		shift = m.base - p.first
	}
	// An event of no kind tells the beginning, which all parts have in common, and draws nothing.
	if err := sink.Write(&event.Event{Time: m.base, PID: pid}); err != nil {
		return err
	}
	err = ev.Each(func(e *event.Event) error {
		m.done.Read++
		m.done.Written++
		e.Time += shift
		e.PID = pid
		m.done.Last = max(m.done.Last, e.Time)
		return sink.Write(e)
	})
	if closeErr := sink.Close(); err == nil {
		err = closeErr
	}
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	return err
}
