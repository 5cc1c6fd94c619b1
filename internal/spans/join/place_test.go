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
	within := w.begin(1, server, "request in it")
	_, inner := w.tracker.Serving(1, "lib")
	if inner.Known {
		t.Errorf("a new request in another one has the place %v", inner)
	}
	inner.Known = true
	if _, same := w.tracker.Serving(1, "lib"); same != inner {
		t.Errorf("a request in another one has the places %p and %p", inner, same)
	}
	w.end(within)
	if _, outer := w.tracker.Serving(1, "lib"); outer != place || len(w.tracker.places) > 0 {
		t.Errorf("after the request in it, the outer one has the place %v; %d others", outer, len(w.tracker.places))
	}
	w.end(first)
	w.begin(1, server, "next request")
	if _, next := w.tracker.Serving(1, "lib"); next.Known {
		t.Errorf("the next request has the place %v", next)
	}
}
