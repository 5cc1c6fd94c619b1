// Web is the server of the benchmark: it serves /hello, which answers with one word, and /orders, which answers with 100 orders as JSON.
// It prints its address, and ends with its stdin. With the build tag sdk it is instrumented by hand with otelhttp; its spans are discarded.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

type order struct {
	ID       int      `json:"id"`
	Customer string   `json:"customer"`
	Items    []string `json:"items"`
	Total    float64  `json:"total"`
}

func main() {
	var orders []order
	for i := range 100 {
		orders = append(orders, order{i, fmt.Sprint("customer ", i), []string{"apples", "pears"}, float64(i) * 1.5})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(orders)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(l, instrument(mux))) }()
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
}
