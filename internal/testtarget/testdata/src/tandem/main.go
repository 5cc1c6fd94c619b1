// Tandem serves and sends HTTP/2 by module golang.org/x/net. It is built with each version that a file such as net-0.62.mod names.
//
// It adds the command `address`, which answers with the addresses of its servers: `address PLAIN TLS`. They serve the paths
//
//	/hello            answers hello
//	/status/N         answers with status N
//	/panic            panics
//	/received         answers with the number of traceparent headers of the request
//	/send?n=N&as=HOW  sends N requests for /received, at once: without TLS (plain), with TLS by a transport of the module (direct), by one of
//	                  net/http (configured); each in a goroutine that exists already, with the context of the request (pooled); with a
//	                  traceparent header of its own (own); to a port at which no server listens (refused)
//
// Both use package http2 of the module: the first one by package h2c, the second one by http2.ConfigureServer.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

type tandem struct {
	plain, tls *httptest.Server
	clients    map[string]*http.Client
	pool       func(func())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	t := &tandem{pool: elsewhere(4), clients: map[string]*http.Client{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("/status/", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(number(r.URL.Path[len("/status/"):])) })
	mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/received", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header["Traceparent"])) })
	mux.HandleFunc("/send", t.send)
	t.plain = httptest.NewServer(h2c.NewHandler(mux, &http2.Server{}))
	t.tls = httptest.NewUnstartedServer(mux)
	check(http2.ConfigureServer(t.tls.Config, &http2.Server{}))
	t.tls.TLS = t.tls.Config.TLSConfig
	t.tls.StartTLS()
	t.connect()
	serve(false, map[string]command{
		"address": func([]string) string {
			return "address " + t.plain.Listener.Addr().String() + " " + t.tls.Listener.Addr().String()
		},
	})
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func (t *tandem) connect() {
	trust := &tls.Config{InsecureSkipVerify: true}
	t.clients["plain"] = &http.Client{Transport: &http2.Transport{AllowHTTP: true, DialTLS: func(network, addr string, _ *tls.Config) (net.Conn, error) {
		return net.Dial(network, addr)
	}}}
	t.clients["direct"] = &http.Client{Transport: &http2.Transport{TLSClientConfig: trust}}
	transport := &http.Transport{TLSClientConfig: trust.Clone()}
	check(http2.ConfigureTransport(transport))
	t.clients["configured"] = &http.Client{Transport: transport}
}

// send serves /send. It answers with the sum of the answers.
func (t *tandem) send(w http.ResponseWriter, r *http.Request) {
	how := r.URL.Query().Get("as")
	client, base, ctx := t.clients[how], t.tls.URL, context.Background()
	switch how {
	case "plain", "pooled", "own":
		client, base = t.clients["plain"], t.plain.URL
	case "refused":
		client, base = t.clients["configured"], "https://127.0.0.1:1"
	}
	if how == "pooled" {
		ctx = r.Context()
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	sum := 0
	for i := 0; i < number(r.URL.Query().Get("n")); i++ {
		one := func() {
			n := get(ctx, client, base+"/received", how == "own")
			mu.Lock()
			defer mu.Unlock()
			sum += n
		}
		all.Add(1)
		go func() {
			defer all.Done()
			if how == "pooled" {
				t.pool(one)
			} else {
				one()
			}
		}()
	}
	all.Wait()
	fmt.Fprint(w, sum)
}

func get(ctx context.Context, client *http.Client, url string, own bool) int {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	check(err)
	if own {
		req.Header.Set("traceparent", "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(err)
	return number(string(text))
}
