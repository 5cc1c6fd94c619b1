package rawtruth

import (
	"bytes"
	"io"
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

// benchTrace returns a trace of some hundred thousand events of Go's newest release.
func benchTrace(b *testing.B) []byte {
	all := releases(b)
	return record(b, recording{all[len(all)-1], 50, "0s", ""})
}

// measure runs a conversion of some bytes, which returns the number of events.
func measure(b *testing.B, size int, convert func() int64) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	var events int64
	for b.Loop() {
		events += convert()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}

func newReader(b *testing.B, wire []byte) *raw.Reader {
	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkReader reads a wire trace.
func BenchmarkReader(b *testing.B) {
	wire := benchTrace(b)
	measure(b, len(wire), func() (events int64) {
		r := newReader(b, wire)
		var ev raw.Event
		for {
			err := r.ReadEvent(&ev)
			if err == io.EOF {
				return events
			}
			if err != nil {
				b.Fatal(err)
			}
			events++
		}
	})
}

// BenchmarkWireToText makes text of a wire trace.
func BenchmarkWireToText(b *testing.B) {
	for name, keepWidths := range map[string]bool{"widths": true, "plain": false} {
		b.Run(name, func(b *testing.B) {
			wire := benchTrace(b)
			measure(b, len(wire), func() int64 {
				r := newReader(b, wire)
				r.KeepWidths = keepWidths
				w, err := raw.NewTextWriter(io.Discard, r.Version())
				if err != nil {
					b.Fatal(err)
				}
				return copyAll(b, w, r)
			})
		})
	}
}

// BenchmarkTextToWire makes a wire trace of text.
func BenchmarkTextToWire(b *testing.B) {
	for name, recompute := range map[string]bool{"plain": false, "recompute": true} {
		b.Run(name, func(b *testing.B) {
			text := wireToText(b, benchTrace(b), false)
			measure(b, len(text), func() int64 {
				r, err := raw.NewTextReader(bytes.NewReader(text))
				if err != nil {
					b.Fatal(err)
				}
				w, err := raw.NewWriter(io.Discard, r.Version())
				if err != nil {
					b.Fatal(err)
				}
				w.RecomputeSizes = recompute
				return copyAll(b, w, r)
			})
		})
	}
}
