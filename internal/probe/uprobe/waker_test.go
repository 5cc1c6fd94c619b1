package uprobe

import (
	"testing"
	"time"
)

// TestPauses lets few records come to readers of events, and of requests.
func TestPauses(t *testing.T) {
	defer readers.Store(readers.Load())
	const room = 1 << 20
	for _, test := range []struct {
		readers int32
		most    time.Duration
		want    time.Duration
	}{
		{1, pauseBusy, pauseFew}, {2, pauseBusy, 4 * pauseFew}, {10, pauseBusy, 5 * time.Millisecond}, {100, pauseBusy, pauseMost},
		{1, pauseMost, pauseMost},
	} {
		readers.Store(test.readers)
		w := &waker{most: test.most}
		w.next(0, room)
		if got := w.next(0, room); got != test.want {
			t.Errorf("%d readers, the longest pause is %v: %v, want %v", test.readers, test.most, got, test.want)
		}
	}
}

// TestReaders makes a waker in vain, which is not counted.
func TestReaders(t *testing.T) {
	before := readers.Load()
	if _, err := newWaker(-1, -1); err == nil {
		t.Fatal("a waker for no process")
	}
	if n := readers.Load(); n != before {
		t.Errorf("%d readers after a failure, %d before", n, before)
	}
}
