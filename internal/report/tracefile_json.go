package report

import (
	"io"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/tracefile"
	"github.com/loupe-go/loupe/sched"
)

// traceSummaryJSON is the summary of a trace file as JSON.
type traceSummaryJSON struct {
	File        string                   `json:"file"`
	Format      string                   `json:"format"` // "Go1.26": the release that introduced it
	Bytes       int64                    `json:"bytes"`
	Generations uint64                   `json:"generations"`
	Error       string                   `json:"error,omitempty"` // the reason why the file was not read completely; all other fields describe the part that was read
	Begin       string                   `json:"begin,omitempty"` // RFC 3339, if the trace has the time of day
	Nanoseconds int64                    `json:"nanoseconds"`     // the time from the first to the last event
	Events      uint64                   `json:"events"`
	Lost        uint64                   `json:"lost"`
	Kinds       map[string]uint64        `json:"kinds"`
	Goroutines  goroutineCounts          `json:"goroutines"`
	By          string                   `json:"by"`
	Groups      []groupStatJSON          `json:"groups"`
	Rest        *groupStatJSON           `json:"rest,omitempty"`   // all groups that are not listed, combined
	Hidden      uint64                   `json:"hidden,omitempty"` // the runtime's own goroutines, which are not in a group
	Waits       []placeJSON              `json:"waits"`            // by place
	Places      int                      `json:"places"`           // of waits, including those that are not listed
	Latency     map[string]histogramJSON `json:"latency"`
	GC          phaseJSON                `json:"gc"`
	STW         phaseJSON                `json:"stopTheWorld"`
	Heap        *heapJSON                `json:"heap,omitempty"`
}

type goroutineCounts struct {
	Total   uint64 `json:"total"`
	AtStart uint64 `json:"atStart"`
	Created uint64 `json:"created"`
	Ended   uint64 `json:"ended"`
	Alive   uint64 `json:"alive"` // at the end
}

// groupStatJSON is a group of goroutines.
type groupStatJSON struct {
	G         uint64       `json:"g,omitempty"`
	Start     *event.Frame `json:"start,omitempty"`
	CreatedBy *event.Frame `json:"createdBy,omitempty"`
	System    bool         `json:"system,omitempty"`
	Groups    int          `json:"groups,omitempty"` // number of groups that are combined
	Count     uint64       `json:"count"`
	AtStart   uint64       `json:"atStart"`
	Ended     uint64       `json:"ended"`
	Running   spreadJSON   `json:"running"`
	Runnable  spreadJSON   `json:"runnable"`
	Blocked   spreadJSON   `json:"blocked"`
	Syscall   spreadJSON   `json:"syscall"`
	Lifetime  spreadJSON   `json:"lifetime"`
	Uncertain int64        `json:"uncertainNanoseconds,omitempty"`
	Reasons   []reasonJSON `json:"blockedBy"`
}

type reasonJSON struct {
	Reason     string `json:"reason"`
	Goroutines uint64 `json:"goroutines"`
	Waits      uint64 `json:"waits"`
	spreadJSON
}

// spreadJSON is the distribution of a time over goroutines.
type spreadJSON struct {
	Total int64 `json:"totalNanoseconds"`
	Min   int64 `json:"minNanoseconds"`
	Mean  int64 `json:"meanNanoseconds"`
	P50   int64 `json:"p50Nanoseconds"`
	P90   int64 `json:"p90Nanoseconds"`
	P99   int64 `json:"p99Nanoseconds"`
	Max   int64 `json:"maxNanoseconds"`
}

type placeJSON struct {
	Reason string        `json:"reason"`
	Work   string        `json:"runtimeWork,omitempty"` // see event.RuntimeWork
	Count  uint64        `json:"count"`                 // number of completed waits
	Now    uint64        `json:"now"`                   // number of goroutines that wait there at the end
	Total  int64         `json:"totalNanoseconds"`
	Max    int64         `json:"maxNanoseconds"` // of the completed waits
	Stack  []event.Frame `json:"stack"`
}

type histogramJSON struct {
	Count uint64 `json:"count"`
	Mean  int64  `json:"meanNanoseconds"`
	P50   int64  `json:"p50Nanoseconds"`
	P90   int64  `json:"p90Nanoseconds"`
	P99   int64  `json:"p99Nanoseconds"`
	Max   int64  `json:"maxNanoseconds"`
}

type phaseJSON struct {
	Begun     uint64 `json:"begun"`
	Count     uint64 `json:"count"` // observed from start to end
	Total     int64  `json:"totalNanoseconds"`
	Max       int64  `json:"maxNanoseconds"`
	Uncertain uint64 `json:"uncertain,omitempty"` // number of those whose start or end was not observed
}

type heapJSON struct {
	Min int64 `json:"minBytes"`
	Max int64 `json:"maxBytes"`
	End int64 `json:"endBytes"`
}

// TraceSummaryJSON writes the summary of a trace file as JSON.
func TraceSummaryJSON(out io.Writer, s *tracefile.Summary) error {
	f := &s.Totals.Flow
	atStart := uint64(max(f.AtStart+f.Found, 0))
	doc := traceSummaryJSON{
		File: s.Name, Format: s.Trace.Version.String(), Bytes: s.Bytes, Generations: s.Trace.Generations, Nanoseconds: s.Last - s.First,
		Events: s.Totals.Events, Lost: s.Totals.Lost, Kinds: map[string]uint64{}, By: string(s.Options.By), Hidden: s.Hidden,
		Goroutines: goroutineCounts{f.Created + atStart, atStart, f.Created, f.Ended, f.Live},
		Groups:     []groupStatJSON{}, Waits: []placeJSON{}, Places: s.Places, Latency: map[string]histogramJSON{},
		GC: phaseDoc(&s.Runtime.GC), STW: phaseDoc(&s.Runtime.STW),
	}
	if s.Err != nil {
		doc.Error = s.Err.Error()
	}
	if s.Wall {
		doc.Begin = time.Unix(0, s.First).UTC().Format(time.RFC3339Nano)
	}
	for k, n := range s.Totals.Kinds {
		doc.Kinds[k.String()] = n
	}
	for _, gr := range s.Groups {
		doc.Groups = append(doc.Groups, groupDoc(gr))
	}
	if s.Rest != nil {
		rest := groupDoc(s.Rest)
		doc.Rest = &rest
	}
	for i := range s.Blockers {
		doc.Waits = append(doc.Waits, placeDoc(&s.Blockers[i]))
	}
	for _, row := range latencyRows(&s.Latency) {
		doc.Latency[row.key] = histogramJSON{row.h.Count(), int64(row.h.Mean()), int64(row.h.Quantile(0.5)), int64(row.h.Quantile(0.9)),
			int64(row.h.Quantile(0.99)), int64(row.h.Max())}
	}
	if s.Runtime.HeapAt != 0 {
		doc.Heap = &heapJSON{s.HeapMin, s.Runtime.HeapMax, s.Runtime.Heap}
	}
	return WriteJSON(out, doc)
}

func groupDoc(gr *tracefile.Group) groupStatJSON {
	doc := groupStatJSON{G: gr.G, System: gr.System, Groups: gr.Others, Count: gr.Count, AtStart: gr.AtStart, Ended: gr.Ended,
		Running: spreadDoc(&gr.Running), Runnable: spreadDoc(&gr.Runnable), Blocked: spreadDoc(&gr.Blocked), Syscall: spreadDoc(&gr.Syscall),
		Lifetime: spreadDoc(&gr.Lifetime), Uncertain: int64(gr.Uncertain.Duration()), Reasons: []reasonJSON{}}
	if gr.By == tracefile.ByCreator {
		doc.CreatedBy = frameOrNil(gr.Frame)
	} else {
		doc.Start = frameOrNil(gr.Frame)
	}
	for i := range gr.Reasons {
		r := &gr.Reasons[i]
		doc.Reasons = append(doc.Reasons, reasonJSON{r.Name, r.Count(), r.Waits, spreadDoc(&r.Spread)})
	}
	return doc
}

func spreadDoc(s *tracefile.Spread) spreadJSON {
	return spreadJSON{int64(s.Total().Duration()), int64(s.Min()), int64(s.Mean()), int64(s.Quantile(0.5)), int64(s.Quantile(0.9)),
		int64(s.Quantile(0.99)), int64(s.Max())}
}

func placeDoc(p *sched.Place) placeJSON {
	reason, work := event.SplitWait(p.Reason)
	doc := placeJSON{Reason: reason, Work: work, Count: p.Count, Now: p.Now, Total: int64(p.Time.Add(p.NowTime).Duration()), Max: int64(p.Max), Stack: []event.Frame{}}
	if p.Stack != nil {
		doc.Stack = p.Stack.Frames
	}
	return doc
}

func phaseDoc(p *sched.Phase) phaseJSON {
	return phaseJSON{p.Begun, p.Count, int64(p.Time.Duration()), int64(p.Max), p.Uncertain}
}
