package generation

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

func TestInput(t *testing.T) {
	want := make([]byte, 3*chunkSize+12345)
	for i := range want {
		want[i] = byte(i * i >> 3)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	in := NewInput(bytes.NewReader(want))
	var got []byte
	var parts [][]byte
	for in.need(1) {
		n := 1 + rng.IntN(70_000)
		if !in.need(n) {
			n = in.size()
		}
		if in.Offset() != int64(len(got)) {
			t.Fatalf("offset %d, want %d", in.Offset(), len(got))
		}
		b := in.take(n)
		got = append(got, b...)
		if parts = append(parts, b); len(parts) == 30 {
			if !bytes.HasSuffix(got, bytes.Join(parts, nil)) {
				t.Fatal("what was taken did not stay valid")
			}
			parts = nil
			in.recycle(in.finish())
		}
	}
	if !bytes.Equal(got, want) || in.failure() != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), in.failure())
	}
	stuck := NewInput(readerFunc(func([]byte) (int, error) { return 0, nil }))
	if stuck.need(1) || !errors.Is(stuck.failure(), io.ErrNoProgress) {
		t.Errorf("a reader without progress: %v", stuck.failure())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
