package discover

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// A notice reports that a process has executed a program, or that its first thread has ended.
type notice struct {
	pid  int
	exit bool
}

// maxBatch is the number of messages of the kernel that are read before their notices are handled.
const maxBatch = 64

// A batch is what a feed passes on.
type batch struct {
	notices []notice
	lost    bool // notices were lost before these
}

// A source passes on notices of the kernel.
type source interface {
	receive() (batch, error) // waits for notices; the error wraps os.ErrClosed after close was called
	close() error
}

// A feed reads a source in a goroutine of its own. A nil feed has no batches.
type feed struct {
	source source
	out    chan batch    // closed after the source has failed
	stop   chan struct{} // closed by close
	done   chan struct{} // closed when the goroutine has ended
	err    error         // why the source has failed; valid when out is closed
}

// open opens the first source that is available, or returns nil if notices are unavailable.
func (w *Watcher) open() *feed {
	var why []string
	for _, s := range []struct {
		name     Source
		disabled bool
		open     func() (source, error)
	}{
		{SourceConnector, w.noConnector, func() (source, error) { return openConnector(w.buffer) }},
		{SourceTracepoints, w.noTracepoints, func() (source, error) { return openTracepoints(w.ring) }},
	} {
		if s.disabled {
			why = append(why, string(s.name)+": disabled")
			continue
		}
		opened, err := s.open()
		if err != nil {
			why = append(why, fmt.Sprintf("%s: %v", s.name, err))
			continue
		}
		w.from(s.name, strings.Join(why, "; "))
		f := &feed{source: opened, out: make(chan batch), stop: make(chan struct{}), done: make(chan struct{})}
		go f.read()
		return f
	}
	w.from(SourcePolling, strings.Join(why, "; "))
	return nil
}

// from notes the source of processes.
func (w *Watcher) from(source Source, why string) {
	w.count(func(s *Stats) { s.Source, s.Why = source, why })
	w.log.Info("following processes", "source", source, "why", why)
}

// fallBack goes on without notices.
func (w *Watcher) fallBack(err error) {
	w.from(SourcePolling, fmt.Sprintf("%s: %v", w.Stats().Source, err))
}

func (f *feed) read() {
	defer close(f.done)
	for {
		b, err := f.source.receive()
		if err == nil && len(b.notices) == 0 && !b.lost {
			continue
		}
		if err != nil {
			if errors.Is(err, os.ErrClosed) {
				return
			}
			f.err = err
			close(f.out)
			return
		}
		select {
		case f.out <- b:
		case <-f.stop:
			return
		}
	}
}

func (f *feed) batches() <-chan batch {
	if f == nil {
		return nil
	}
	return f.out
}

// close ends the goroutine.
func (f *feed) close() {
	if f == nil {
		return
	}
	close(f.stop)
	f.source.close()
	<-f.done
}
