package trace_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace"
)

// This example writes events as a trace that go tool trace can open.
func ExampleWriter() {
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, trace.WriterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	const start = 1_800_000_000_000_000_000
	for _, e := range []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateRunnable, Time: start},
		{Kind: event.GoStart, G: 1, TID: 100, P: event.ProcOf(0), Time: start + 10},
		{Kind: event.GoCreate, G: 7, Parent: 1, TID: 100, Time: start + 500, Origin: &event.Origin{Start: event.Frame{Func: "main.work"}}},
		{Kind: event.GoBlock, G: 1, TID: 100, Reason: "chan receive", Time: start + 900},
	} {
		if err := w.Write(&e); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Stats().Events, "events,", w.Stats().Repaired, "repaired")

	r, err := trace.NewReader(&file)
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range r.Events() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("G%d %v %q\n", e.G, e.Kind, e.Reason)
	}
	// Output:
	// 4 events, 0 repaired
	// G1 GoStatus ""
	// G1 GoStart ""
	// G7 GoCreate ""
	// G1 GoBlock "chan receive"
}

// This example reports all problems of a damaged trace with their positions.
func ExampleValidate() {
	trouble := []byte("go 1.23 trace\x00\x00\x00" +
		"\x01\x01\x05\x00\x03" + // a batch of generation 1 and thread 5, with 3 bytes:
		"\x10\x01\x07") // a GoStart without its last number
	report, err := trace.Validate(bytes.NewReader(trouble), trace.ValidateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range report.Problems {
		fmt.Println(p.Severity, p.Code)
		fmt.Println(p.Error())
	}
	// Output:
	// error no-frequency
	// offset 16, generation 1: generation 1 has no Frequency
	// error cut-off
	// offset 21, generation 1, batch 0, M 5, event 0: GoStart is cut off by the end of its batch; the last 3 bytes of the batch are skipped
}
