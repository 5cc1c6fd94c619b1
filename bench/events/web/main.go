// Command web is a target of the events benchmark: a net/http server. It answers with a greeting, or with N orders as
// JSON if it is started with -orders N. It serves on a free port, which it prints. Commands on standard input control
// the program (see package control). An operation is a request.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/loupe-go/loupe/bench/events/control"
)

type order struct {
	ID       int
	Customer string
	Items    []string
	Total    float64
}

func main() {
	orders := flag.Int("orders", 0, "answer with `N` orders as JSON; 0 sends a greeting")
	flag.Parse()
	list := make([]order, *orders)
	for i := range list {
		list[i] = order{i, fmt.Sprint("customer ", i), []string{"pen", "paper"}, float64(i) + 0.5}
	}
	var requests atomic.Int64
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if len(list) > 0 {
			json.NewEncoder(w).Encode(list)
		} else {
			io.WriteString(w, "Hello, world\n")
		}
		requests.Add(1)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(l, nil)) }()
	control.Serve(l.Addr().String(), requests.Load)
}
