//go:build client

package main

import "net/http"

// reach passes requests on, and has a client that sends none.
func reach(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/send" {
			http.Get("http://127.0.0.1:1/")
		}
		h.ServeHTTP(w, r)
	})
}
