//go:build embed

package main

import "net/http"

type visit struct {
	number int
	req    http.Request
}

// reach passes copies of requests that are a part of a larger struct.
func reach(h http.Handler) http.Handler {
	visits := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits++
		v := &visit{visits, *r}
		h.ServeHTTP(w, &v.req)
	})
}
