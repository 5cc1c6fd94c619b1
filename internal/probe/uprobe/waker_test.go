package uprobe

import (
	"testing"
	"time"
)

// TestPauses lets few records come to readers of events, and of requests.
func TestPauses(t *testing.T) {
	const room = 1 << 20
	for _, test := range []struct{ most, want time.Duration }{{pauseBusy, pauseFew}, {pauseMost, pauseMost}} {
		w := &waker{most: test.most}
		w.next(0, room)
		if got := w.next(0, room); got != test.want {
			t.Errorf("the longest pause is %v: %v, want %v", test.most, got, test.want)
		}
	}
}
