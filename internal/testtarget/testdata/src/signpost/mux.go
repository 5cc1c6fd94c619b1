//go:build mux
// +build mux

package main

import (
	"net/http"
	"strings"

	"github.com/gorilla/mux"
)

// with returns a handler that knows its route.
func with(handle func(http.ResponseWriter, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		route, _ := mux.CurrentRoute(r).GetPathTemplate()
		handle(w, route)
	}
}

func router() http.Handler {
	r := mux.NewRouter()
	r.HandleFunc("/hello", with(answer)).Methods("GET")
	r.HandleFunc("/items/{id:[0-9]+}", with(answer))
	r.HandleFunc("/long/{name:(?:"+strings.Repeat("[a-z]{3}|", 50)+"x)}/{id}", func(w http.ResponseWriter, r *http.Request) { answer(w, "") })
	r.PathPrefix("/files/").HandlerFunc(with(answer))
	api := r.PathPrefix("/api").Subrouter()
	v1 := api.PathPrefix("/v1").Subrouter()
	v1.HandleFunc("/users/{id}", with(answer))
	second := mux.NewRouter()
	second.HandleFunc("/deep/{id}", with(answer))
	r.PathPrefix("/deep/").Handler(second)
	r.PathPrefix("/inner/").Handler(inner())
	r.HandleFunc("/spawn/{id}", with(spawn))
	r.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r.HandleFunc("/recovered", func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			recover()
			w.WriteHeader(500)
		}()
		panic("recovered")
	})
	return r
}
