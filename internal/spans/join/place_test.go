package join

import "testing"

// TestWithin compares places.
func TestWithin(t *testing.T) {
	outer, inner, elsewhere := Place{Depth: 100}, Place{Depth: 200}, Place{Other: true, Depth: 50}
	for _, c := range []struct {
		a, b Place
		want bool
	}{{inner, outer, true}, {outer, inner, false}, {outer, outer, true}, {elsewhere, inner, true}, {inner, elsewhere, false}} {
		if got := c.a.Within(c.b); got != c.want {
			t.Errorf("%v within %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestPlace notes where the route of a request was found, which its goroutines have in common, and others do not.
func TestPlace(t *testing.T) {
	w := newWorld(t, nil)
	first := w.begin(1, server, "request")
	w.create(2, 1)
	_, place := w.tracker.Serving(1, "lib")
	if place.Known {
		t.Errorf("a new request has the place %v", place)
	}
	*place = Place{Known: true, Depth: 5}
	if _, same := w.tracker.Serving(2, "lib"); same != place {
		t.Errorf("another goroutine of the request has the place %v", same)
	}
	w.begin(1, server, "request in it")
	if _, inner := w.tracker.Serving(1, "lib"); inner.Known {
		t.Errorf("a request in another one has the place %v", inner)
	}
	w.end(first)
	w.begin(1, server, "next request")
	if _, next := w.tracker.Serving(1, "lib"); next.Known {
		t.Errorf("the next request has the place %v", next)
	}
}
