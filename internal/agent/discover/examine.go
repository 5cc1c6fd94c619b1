package discover

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
)

// A finding is the result of the examination of a program.
type finding struct {
	outcome outcome
	process Process // if outcome is isGo
	err     error   // if outcome is failed
}

// Limits on the examination of a program. A file system or the memory of a process can belong to a program that does not answer.
const (
	examineTime = 5 * time.Second
	maxHanging  = 16
)

// errHanging reports that a process could not be examined in time.
var errHanging = errors.New("reading its executable or its memory takes too long")

// examine returns what a program is, and describes the process if it is a Go program.
func (w *Watcher) examine(id goproc.Identity) finding {
	f, ok := within(examineTime, &w.hanging, func() finding { return w.examineNow(id) })
	if !ok {
		return finding{outcome: failed, err: errHanging}
	}
	return f
}

// within calls a function, unless too many calls have not returned in time. ok is false for those.
func within[T any](limit time.Duration, hanging *atomic.Int32, call func() T) (result T, ok bool) {
	if hanging.Load() >= maxHanging {
		return result, false
	}
	done := make(chan T, 1)
	go func() { done <- call() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case result = <-done:
		return result, true
	case <-timer.C:
		hanging.Add(1)
		go func() {
			<-done
			hanging.Add(-1)
		}()
		return result, false
	}
}

// examineNow is examine without a limit of time. The process can end meanwhile, or execute another program.
func (w *Watcher) examineNow(id goproc.Identity) finding {
	f, analyzed, err := w.files.executable(id.PID)
	if analyzed {
		w.count(func(s *Stats) { s.Analyses++ })
	}
	if err == nil {
		err = f.err
	}
	if err == nil && !f.isGo {
		return finding{outcome: notGo}
	}
	var p Process
	clipped := false
	if err == nil {
		p, clipped = describe(id)
		p.BuildID = f.buildID
	}
	now, identifyErr := goproc.Identify(id.PID)
	switch {
	case identifyErr != nil, now != id, errors.Is(err, fs.ErrNotExist): // if it has executed another program, that is inspected next
		return finding{outcome: gone}
	case err != nil:
		return finding{outcome: failed, err: err}
	}
	if clipped {
		w.count(func(s *Stats) { s.Clipped++ })
	}
	return finding{outcome: isGo, process: p}
}
