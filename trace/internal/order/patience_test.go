package order

import (
	"bytes"
	"testing"

	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// stuckTrace returns a trace of many threads that wait for something that never comes.
func stuckTrace(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := raw.NewWriter(&out, raw.Go126)
	if err != nil {
		t.Fatal(err)
	}
	w.RecomputeSizes = true
	write := func(typ raw.Type, args ...uint64) {
		t.Helper()
		if err := w.WriteEvent(&raw.Event{Version: raw.Go126, Type: typ, Args: args}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(3000) {
		write(raw.EvEventBatch, 1, 4242+i, 1000, 0)
		write(raw.EvGoUnblock, 1, 7000+i, 1, 0)
		write(raw.EvGoUnblock, 1, 7000+i, 2, 0)
	}
	write(raw.EvEventBatch, 1, generation.None, 1000, 0)
	write(raw.EvSync)
	write(raw.EvFrequency, 1e9)
	write(raw.EvClockSnapshot, 1, 1, 1, 1)
	write(raw.EvEndOfGeneration)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPatience gives many threads that wait for something that never comes.
func TestPatience(t *testing.T) {
	list := problem.NewList(10)
	md := New(raw.Go126, list)
	md.patience = 1000
	in := generation.NewInput(bytes.NewReader(stuckTrace(t)))
	if _, err := generation.ReadHeader(in); err != nil {
		t.Fatal(err)
	}
	l := generation.NewLoader(in, raw.Go126, 10)
	for {
		g, err := l.Next()
		if err != nil {
			break
		}
		md.Begin(g)
		for step := StepEvent; step == StepEvent || step == StepSample; {
			if step, _ = md.Step(); step == StepSample {
				md.Samples = md.Samples[1:]
			}
		}
	}
	if list.Counts[problem.Stuck] != 1 {
		t.Errorf("problems %v", list.Counts)
	}
}
