package doctor

import (
	"context"
	"log/slog"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// Target is what was found out about a process.
type Target struct {
	PID      int
	Info     event.ProcessInfo // zero when Err is set
	Warnings []string          // of package goproc
	Err      error             // why the process cannot be observed; nil when it can
	Tracer   int               // the process that traces it already; 0 when none does
	TracedBy string            // the name of that process's program
	Refusal  error             // why engine inline would refuse it, as far as that can be found without changing it
	Owner    int               // user ID it runs as; -1 when unknown
	Ancestor bool              // this process is its parent, or a parent of its parents
	Inline   *Inline           // nil when no engine has code in it
	// Breakpoints are those of other tracers in its code.
	Breakpoints []goproc.Breakpoint
}

// Examine makes the report. target is nil when the machine alone is in question.
func Examine(f Facts, target *Target) *checkup.Report {
	r := &checkup.Report{Machine: f.machine(), Abilities: f.abilities(target)}
	if target != nil {
		r.Target = f.target(target)
		for _, b := range target.Breakpoints {
			r.Breakpoints = append(r.Breakpoints, checkup.Breakpoint{Func: b.Func, Offset: b.Offset})
		}
	}
	return r
}

// Inspect finds out all about a process that a report needs. A process with a seccomp filter is stopped for some
// microseconds. The log receives debug messages.
func Inspect(ctx context.Context, pid int, log *slog.Logger) *Target {
	t := LookAt(pid)
	notes, notesErr := inline.Look(pid)
	if t.Err = t.read(notes, log); t.Err == nil && t.Info.Goroutines < 0 {
		t.Err = goproc.ErrExited
	}
	if notesErr != nil {
		t.Warnings = append(t.Warnings, notesErr.Error())
	} else if notes != nil {
		t.Inline = &Inline{Loupe: int(notes.Loupe), Alive: notes.Alive(), Places: len(notes.Edits), Memory: notes.Shared != 0}
	}
	if t.Err == nil && t.Tracer == 0 && (t.Inline == nil || !t.Inline.Memory) { // engine inline is unavailable otherwise
		t.Refusal = inline.Check(ctx, pid)
	}
	return t
}

// read opens the process and sets what package goproc says of it. notes are those of engine inline; nil without them.
func (t *Target) read(notes *inline.Notes, log *slog.Logger) error {
	p, err := goproc.Open(t.PID, goproc.Options{Log: log})
	if err != nil {
		return err
	}
	defer p.Close()
	t.Info, t.Warnings = p.Info(), event.WarningTexts(p.Warnings())
	var known []ptrace.Edit
	if notes != nil {
		known = notes.Edits
	}
	if t.Breakpoints, err = p.Breakpoints(known); err != nil {
		t.Warnings = append(t.Warnings, err.Error())
	}
	return nil
}
