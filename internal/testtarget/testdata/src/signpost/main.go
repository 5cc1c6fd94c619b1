// Signpost serves HTTP and HTTP/2 with a router. It is built with each version of each router that a file such as mux-1.8.mod names, and
// one of the build tags std, mux, chi4, chi5, gin, echo4 and echo5. The routes are in the file with the name of the tag.
//
// It adds the command `address`, which answers with the addresses of its servers: `address PLAIN TLS`. They serve the paths
//
//	/hello             answers hello, for GET only
//	/items/ID          is a route with a parameter
//	/files/a/b         is a route with a wildcard
//	/api/v1/users/ID   is a route of a group in a group
//	/deep/ID           is a route of a second router, to which the first one passes requests for /deep/
//	/inner/things      is a pattern of an http.ServeMux, to which the router passes requests for /inner/
//	/spawn/ID          is a route whose handler waits for another goroutine
//	/panic             panics
//	/recovered         panics, and a middleware of the router recovers
//
// The header Way is how a request reaches the router: `mux` through an http.ServeMux, `timeout` through an http.TimeoutHandler, `copy`
// as a copy, `abandon` through an http.TimeoutHandler that answers first, `release` when an
// abandoned request goes on. Responses have the route that the router knows in the header Route.
package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"time"
)

func main() {
	plain, tls := httptest.NewServer(ways(router())), httptest.NewUnstartedServer(ways(router()))
	tls.EnableHTTP2 = true
	tls.StartTLS()
	serve(false, map[string]command{
		"address": func([]string) string {
			return "address " + plain.Listener.Addr().String() + " " + tls.Listener.Addr().String()
		},
	})
}

type key struct{}

// ways returns a handler that passes requests to a router.
func ways(to http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", to)
	timeout := http.TimeoutHandler(to, time.Minute, "")
	released := make(chan struct{})
	late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-released
		to.ServeHTTP(w, r)
	})
	abandon := http.TimeoutHandler(late, time.Millisecond, "")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Way") {
		case "mux":
			mux.ServeHTTP(w, r)
		case "timeout":
			timeout.ServeHTTP(w, r)
		case "copy":
			to.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "")))
		case "abandon":
			abandon.ServeHTTP(w, r)
		case "release":
			released <- struct{}{}
			to.ServeHTTP(w, r)
		default:
			to.ServeHTTP(w, r)
		}
	})
}

// answer answers a request, given its route.
func answer(w http.ResponseWriter, route string) {
	w.Header().Set("Route", route)
	io.WriteString(w, "hello")
}

// spawn answers a request when another goroutine has ended.
func spawn(w http.ResponseWriter, route string) {
	done := make(chan struct{})
	go func() {
		time.Sleep(time.Millisecond)
		close(done)
	}()
	<-done
	answer(w, route)
}

// inner returns the handler of /inner/.
func inner() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/inner/things", func(w http.ResponseWriter, r *http.Request) { answer(w, "/inner/things") })
	return mux
}
