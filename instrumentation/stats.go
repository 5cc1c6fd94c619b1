package instrumentation

import "github.com/loupe-go/loupe"

// Stats are the numbers of an [Instrumentation] so far.
type Stats struct {
	Processes Processes

	// Spans are the sums of the counts of all processes. Spans.Ended were passed to the function of WithHandler. Spans.Open also has
	// those that had not ended when the observation of their process ended. Spans.Notes.Lost is the number of reports of begins and
	// ends that were lost because a buffer was full.
	Spans      loupe.SpanCounts
	LostEvents uint64 // events that were lost, so that breakdowns are incomplete

	// Unsampled is the number of spans, of Spans.Ended, that are neither exported nor passed to the provider of WithTracerProvider.
	Unsampled uint64

	// Each sampled span that the program does not export itself (Spans.Own) is in exactly one of these numbers, if spans are exported.
	Queued   int    // waiting, or being exported
	Exported uint64 // accepted by each exporter
	Failed   uint64 // an exporter has returned an error, or the back end has rejected the span
	Dropped  uint64 // the queue was full, or its deadline for closing has passed

	// These are the numbers of WithTracerProvider.
	Provided uint64 // spans that the provider has received
	Waiting  int    // spans that wait for the end of their parent
	Orphans  uint64 // of Provided, spans whose parent has not ended, or too late
}

// Processes are numbers of processes.
type Processes struct {
	Observed int    // now
	Ended    uint64 // no longer observed
	Failed   uint64 // could not be observed
}

// addSpans adds the counts of a process.
func addSpans(sum *loupe.SpanCounts, c loupe.SpanCounts) {
	sum.Begun += c.Begun
	sum.Ended += c.Ended
	sum.Own += c.Own
	sum.Panicked += c.Panicked
	sum.Unobserved += c.Unobserved
	sum.Open += c.Open
	sum.Uncertain += c.Uncertain
	sum.Strays += c.Strays
	sum.NoHeader += c.NoHeader
	sum.NoState += c.NoState
	sum.Unsearched += c.Unsearched
	sum.Mismatched += c.Mismatched
	sum.Unlisted += c.Unlisted
	sum.Notes.Add(c.Notes)
	sum.Routes.Add(c.Routes)
}
