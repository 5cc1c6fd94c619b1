//go:build go1.22

package main

import (
	"io"
	"net/http"
)

func handleItems(mux *http.ServeMux) {
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.PathValue("id")) })
}
