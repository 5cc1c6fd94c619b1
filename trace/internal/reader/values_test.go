package reader

import (
	"testing"

	"github.com/loupe-go/loupe/event"
)

func TestLostEvents(t *testing.T) {
	for _, tt := range []struct {
		category, message string
		n                 int64
		ok                bool
	}{
		{"loupe", "12 events lost", 12, true},
		{"loupe", "0 events lost", 0, true},
		{"other", "12 events lost", 0, false},
		{"loupe", "some events lost", 0, false},
		{"loupe", "-1 events lost", 0, false},
		{"loupe", "99999999999999999999 events lost", 0, false},
		{"loupe", "ChanSend", 0, false},
	} {
		if n, ok := LostEvents(tt.category, tt.message); ok != tt.ok || ok && n != tt.n {
			t.Errorf("%q, %q: %d, %v", tt.category, tt.message, n, ok)
		}
	}
}

func TestCounter(t *testing.T) {
	for _, tt := range []struct {
		category, message string
		kind              event.Kind
		n                 int64
		ok                bool
	}{
		{"loupe", "AllocBytes 12", event.AllocBytes, 12, true},
		{"loupe", "AllocObjects 0", event.AllocObjects, 0, true},
		{"other", "AllocBytes 12", 0, 0, false},
		{"loupe", "AllocBytes", 0, 0, false},
		{"loupe", "AllocBytes many", 0, 0, false},
		{"loupe", "AllocBytes -1", 0, 0, false},
		{"loupe", "GoBlock 5", 0, 0, false},
		{"loupe", "12 events lost", 0, 0, false},
	} {
		if kind, n, ok := Counter(tt.category, tt.message); ok != tt.ok || ok && (kind != tt.kind || n != tt.n) {
			t.Errorf("%q, %q: %v %d, %v", tt.category, tt.message, kind, n, ok)
		}
	}
}
