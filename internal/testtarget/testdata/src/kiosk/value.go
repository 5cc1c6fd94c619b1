//go:build value

package main

import "net/http"

// reach passes copies of requests that it makes itself.
func reach(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		copied := *r
		h.ServeHTTP(w, &copied)
	})
}
