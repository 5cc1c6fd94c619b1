//go:build !go1.22

package main

import (
	"io"
	"net/http"
)

func handleItems(mux *http.ServeMux) {
	mux.HandleFunc("/items/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path[len("/items/"):]) })
}
