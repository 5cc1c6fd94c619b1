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

// TestWithoutPatterns removes the patterns of variables.
func TestWithoutPatterns(t *testing.T) {
	for route, want := range map[string]string{
		"/hello": "/hello", "/{id}": "/{id}", "/v2/{name:(?:[a-z]{1,3}/)?é+}/blobs/{digest:sha256:[0-9a-f]{64}}": "/v2/{name}/blobs/{digest}", "/a:b/{c}": "/a:b/{c}",
		"/{id:[0-9]": "/{id", "}:{a:b}": "}:{a}", "/{a}-{b:x}y": "/{a}-{b}y",
	} {
		if got := withoutPatterns(route); got != want {
			t.Errorf("%q: got %q, want %q", route, got, want)
		}
	}
}
