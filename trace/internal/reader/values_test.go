package reader

import "testing"

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
