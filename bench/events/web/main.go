// Command web is a target of the events benchmark: a net/http server that greets. It serves on a port of its own choice,
// which it prints, and is steered by lines, see package control; an operation is a request.
package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/loupe-go/loupe/bench/events/control"
)

func main() {
	var requests atomic.Int64
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "Hello, world\n")
		requests.Add(1)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(l, nil)) }()
	control.Serve(l.Addr().String(), requests.Load)
}
