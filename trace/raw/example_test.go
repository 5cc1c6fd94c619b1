package raw_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/loupe-go/loupe/trace/raw"
)

// This example converts a trace to text. Because of KeepWidths, the text records which numbers take more bytes than
// necessary.
func ExampleCopy() {
	wire := []byte("go 1.22 trace\x00\x00\x00" + // header
		"\x01\x01\x07\x64\x84\x00" + // batch of 4 bytes, whose size takes two bytes here
		"\x10\x05\x09\x01") // GoStart

	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		log.Fatal(err)
	}
	r.KeepWidths = true
	w, err := raw.NewTextWriter(os.Stdout, r.Version())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := raw.Copy(w, r); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Trace Go1.22
	// #widths size=2
	// EventBatch gen=1 m=7 time=100 size=4
	// GoStart dt=5 g=9 g_seq=1
}

// This example converts a text trace that was written by hand to the wire format, and computes the sizes of its batches.
func ExampleWriter() {
	const text = `Trace Go1.26
EventBatch gen=1 m=7 time=100 size=0 # to be computed
Strings
String id=1
	data="hello"
EndOfGeneration
`
	r, err := raw.NewTextReader(strings.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	var wire bytes.Buffer
	w, err := raw.NewWriter(&wire, r.Version())
	if err != nil {
		log.Fatal(err)
	}
	w.RecomputeSizes = true
	if _, err := raw.Copy(w, r); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", wire.Bytes())
	// Output:
	// "go 1.26 trace\x00\x00\x00\x01\x01\ad\t\x04\x05\x01\x05hello4"
}

// This example counts events by name.
func ExampleReader_All() {
	wire := "go 1.22 trace\x00\x00\x00" + "\x01\x01\x07\x64\x05" + "\x10\x05\x09\x01\x02"
	r, err := raw.NewReader(strings.NewReader(wire))
	if err != nil {
		log.Fatal(err)
	}
	counts := make(map[string]int)
	for ev, err := range r.All() {
		if err != nil {
			log.Fatal(err)
		}
		counts[ev.Spec().Name]++
	}
	fmt.Println(counts)
	// Output:
	// map[EventBatch:1 GoStart:1 Stacks:1]
}

// This example shows an error with its position.
func ExampleTextReader() {
	// The output of `go tool trace -d=wire` has no header, so it has to be added.
	const printed = "GoStart dt=5 g=9 g_seq=1\nGoStart dt=5 g=9\n"
	r, err := raw.NewTextReader(strings.NewReader("Trace Go1.22\n" + printed))
	if err != nil {
		log.Fatal(err)
	}
	var ev raw.Event
	for err = r.ReadEvent(&ev); err == nil; err = r.ReadEvent(&ev) {
		fmt.Printf("goroutine %d starts\n", ev.Args[1])
	}
	fmt.Println(err)
	// Output:
	// goroutine 9 starts
	// line 3: GoStart: argument g_seq is missing
}

// This example looks up the specification of an event type.
func ExampleVersion_Specs() {
	spec := raw.Go126.Specs()[raw.EvGoUnblock]
	fmt.Println(spec.Name, spec.Args, spec.Timed)
	// Output:
	// GoUnblock [dt g g_seq stack] true
}
