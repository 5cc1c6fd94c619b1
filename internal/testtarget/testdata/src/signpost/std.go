//go:build std
// +build std

package main

import (
	"net/http"
)

// router returns a router of package net/http, which has no parameters before Go 1.22, and none of its own to recover from panics.
func router() http.Handler {
	mux := http.NewServeMux()
	for path, handle := range map[string]func(http.ResponseWriter, string){"/hello": answer, "/items/": answer, "/files/": answer, "/api/v1/users/": answer, "/spawn/": spawn} {
		route, handle := path, handle
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { handle(w, route) })
	}
	second := http.NewServeMux()
	second.HandleFunc("/deep/", func(w http.ResponseWriter, r *http.Request) { answer(w, "/deep/") })
	mux.Handle("/deep/", second)
	mux.Handle("/inner/", inner())
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/recovered", func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			recover()
			w.WriteHeader(500)
		}()
		panic("recovered")
	})
	return mux
}
