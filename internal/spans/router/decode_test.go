package router

import "testing"

// TestJoined joins the parts of routes.
func TestJoined(t *testing.T) {
	for route, want := range map[string]string{
		"/hello": "/hello", "/files/*": "/files/*", "/api/*/v1/*/users/{id}": "/api/v1/users/{id}", "/a/*/*/b": "/a/b", "/api/*/": "/api", "/": "/", "/*/": "/",
		"//": "/",
	} {
		if got := joined(route); got != want {
			t.Errorf("%q: got %q, want %q", route, got, want)
		}
	}
}

// TestWithin compares places.
func TestWithin(t *testing.T) {
	outer, inner, elsewhere := place{false, 100}, place{false, 200}, place{true, 50}
	for _, c := range []struct {
		a, b place
		want bool
	}{{inner, outer, true}, {outer, inner, false}, {outer, outer, true}, {elsewhere, inner, true}, {inner, elsewhere, false}} {
		if got := c.a.within(c.b); got != c.want {
			t.Errorf("%v within %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
