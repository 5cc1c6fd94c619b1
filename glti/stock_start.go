package glti

import (
	"runtime/trace"
	"time"
)

// startedTrace is a source that uses trace.Start.
type startedTrace struct{ splitter *splitter }

func (st *startedTrace) start(s *splitter) error {
	st.splitter = s
	return trace.Start(s)
}

// stop waits until the rest of the trace has been written.
func (st *startedTrace) stop() {
	trace.Stop()
	st.splitter.finish()
}

// poll ends two generations: the begin of the second shows that the first is complete.
func (*startedTrace) poll(_ *splitter, exact bool) error {
	if exact {
		traceAdvance(false)
		traceAdvance(false)
	}
	return nil
}

func (*startedTrace) pollEvery() time.Duration { return 0 }
