package loupe_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestSpansLoss has a reader stop for a while under load. Events and notes are lost. The spans that are reported are right, and the
// others are counted.
func TestSpansLoss(t *testing.T) {
	const requests, senders = 4000, 32
	for _, spec := range testtarget.Ends(t, webSpecs(t)) {
		t.Run(spec.String(), func(t *testing.T) {
			w := observeWeb(t, testtarget.Start(t, testtarget.Build(t, spec)), loupe.Options{BufferBytes: 1})
			stop := make(chan struct{})
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				w.stall(stop)
			}()
			w.sendMany(requests, senders, func(n int) string { return fmt.Sprintf("/busy/%d", n) })
			close(stop)
			<-stopped
			w.client.CloseIdleConnections()
			w.detach()
			w.checkLossy(requests)
		})
	}
}

// stall stops the reader again and again.
func (w *web) stall(stop <-chan struct{}) {
	for {
		w.reading.Lock()
		time.Sleep(60 * time.Millisecond)
		w.reading.Unlock()
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// checkLossy compares the spans of requests for /busy/ with the requests.
func (w *web) checkLossy(requests int) {
	w.t.Helper()
	seen := map[string]bool{}
	certain, unobserved := 0, 0
	for _, s := range w.got {
		a := attributes(s)
		n, err := strconv.Atoi(strings.TrimPrefix(a["url.path"], "/busy/"))
		parent := numbered(n)
		if err != nil || seen[a["url.path"]] || s.Parent.TraceID().String() != parent[3:35] || s.Parent.SpanID().String() != parent[36:52] {
			w.t.Errorf("%v: want a parent of %s and no other span of the path", describe([]*spans.Span{s}), parent)
		}
		seen[a["url.path"]] = true
		status := strconv.Itoa(200 + n%300)
		switch {
		case s.Ending == spans.Unobserved:
			unobserved++
			status = ""
		case s.Ending != spans.Returned:
			w.t.Errorf("%v", describe([]*spans.Span{s}))
		}
		if a["http.response.status_code"] != status {
			w.t.Errorf("%v: want status %q", describe([]*spans.Span{s}), status)
		}
		if s.Work.Own.Total() != time.Duration(s.End-s.Start) || s.Ending == spans.Unobserved && !s.Work.Uncertain {
			w.t.Errorf("%s: %v in %v, uncertain: %v", a["url.path"], s.Work.Own, time.Duration(s.End-s.Start), s.Work.Uncertain)
		}
		if !s.Work.Uncertain {
			certain++
			if s.Work.Own[spans.Sleep] == 0 { // less than 2 ms if the thread lost the processor before it set the timer
				w.t.Errorf("%s slept: %v", a["url.path"], s.Work.Own)
			}
		}
	}
	c, err := w.session.SpanCounts()
	if err != nil {
		w.t.Fatal(err)
	}
	stats := w.session.Stats()
	w.t.Logf("%d spans of %d requests, %d of them certain, %d with unobserved ends: %+v; %d events lost of %d", len(w.got), requests, certain, unobserved, c, stats.Lost, stats.Events)
	// Each request has two notes. A span of which one was lost is unobserved or still open, or its end is a stray one.
	strays := c.Strays + c.Mismatched
	if both := c.Notes.Lost + strays - c.Unobserved - c.Open; both%2 != 0 || c.Begun+both/2 != uint64(requests) {
		w.t.Errorf("%d spans and %d requests without one are not %d requests", c.Begun, both/2, requests)
	}
	if c.Mismatched > 0 || c.Notes.Lost == 0 || certain == 0 || certain == len(w.got) {
		w.t.Errorf("%d notes lost, %d of %d spans certain, %d mismatched", c.Notes.Lost, certain, len(w.got), c.Mismatched)
	}
}

// numbered returns the traceparent of a request with a number.
func numbered(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n+1, n+1) }
