package term

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressDelay is how long work may last before a person wants to see that it goes on.
const progressDelay = time.Second

// EraseLine removes what is in the line of the cursor on a terminal.
const EraseLine = "\r\x1b[K"

// Progress shows that work goes on, on a line of a terminal that disappears when the work is done.
type Progress struct {
	stop chan struct{}
	done sync.WaitGroup
}

// StartProgress begins to show a text, with the seconds that have passed, once the work has lasted for a second. Nothing
// is written when w is nil.
func StartProgress(w io.Writer, text string) *Progress {
	p := &Progress{stop: make(chan struct{})}
	if w == nil {
		return p
	}
	p.done.Go(func() { p.run(w, text) })
	return p
}

func (p *Progress) run(w io.Writer, text string) {
	began := time.Now()
	tick := time.NewTicker(progressDelay)
	defer tick.Stop()
	shown := false
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(w, EraseLine+"%s … %ds", Escape(text), int(time.Since(began).Seconds()))
			shown = true
		case <-p.stop:
			if shown {
				fmt.Fprint(w, EraseLine)
			}
			return
		}
	}
}

// Stop removes the line. It is called once.
func (p *Progress) Stop() {
	close(p.stop)
	p.done.Wait()
}
