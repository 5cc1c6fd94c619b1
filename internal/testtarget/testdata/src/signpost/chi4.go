//go:build chi4
// +build chi4

package main

import (
	"net/http"

	"github.com/go-chi/chi"
)

// with returns a handler that knows its route.
func with(handle func(http.ResponseWriter, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handle(w, chi.RouteContext(r.Context()).RoutePattern())
	}
}

// recovering is a middleware that recovers from the panic of one path.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/recovered" {
			defer func() {
				recover()
				w.WriteHeader(500)
			}()
		}
		next.ServeHTTP(w, r)
	})
}

func router() http.Handler {
	r := chi.NewRouter()
	r.Use(recovering)
	r.Get("/hello", with(answer))
	r.Get("/items/{id}", with(answer))
	r.Get("/files/*", with(answer))
	r.Route("/api", func(r chi.Router) {
		v1 := chi.NewRouter()
		v1.Get("/users/{id}", with(answer))
		r.Mount("/v1", v1)
	})
	second := chi.NewRouter()
	second.Get("/{id}", with(answer))
	r.Mount("/deep", http.HandlerFunc(second.ServeHTTP))
	r.Handle("/inner/*", inner())
	r.Get("/spawn/{id}", with(spawn))
	r.Get("/panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r.Get("/recovered", func(http.ResponseWriter, *http.Request) { panic("recovered") })
	return r
}
