package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// ownParent is the traceparent header that the program sets itself.
const ownParent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"

// received answers with the number of traceparent headers of a request, and the first one.
func received(rw http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	fmt.Fprintln(rw, len(r.Header["Traceparent"]), r.Header.Get("Traceparent"))
}

// carried answers with the number of tracestate and baggage headers of a request, and the first ones.
func carried(rw http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	fmt.Fprintf(rw, "%d %s|%d %s\n", len(r.Header["Tracestate"]), r.Header.Get("Tracestate"), len(r.Header["Baggage"]), r.Header.Get("Baggage"))
}

// send sends requests at once, in some way, and answers with their answers.
func (w *web) send(rw http.ResponseWriter, r *http.Request) {
	var mu sync.Mutex
	var all sync.WaitGroup
	shared := http.Header{"X-Shared": {"yes"}}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	how, to := r.URL.Query().Get("as"), r.URL.Query().Get("to")
	if to == "" {
		to = "received"
	}
	for i := 0; i < count(r); i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			answer := w.sendOne(client, how, "/"+to, shared)
			mu.Lock()
			defer mu.Unlock()
			io.WriteString(rw, answer)
		}()
	}
	all.Wait()
	client.CloseIdleConnections()
}

func (w *web) sendOne(client *http.Client, how, path string, shared http.Header) string {
	req, _ := http.NewRequest("GET", w.plain.URL+path, nil)
	switch how {
	case "shared":
		req.Header = shared
	case "own":
		req.Header.Set("traceparent", ownParent)
	case "lower":
		req.Header["traceparent"] = []string{ownParent}
	case "long":
		req.URL.RawQuery = strings.Repeat("x", 3950)
	case "post":
		req, _ = http.NewRequest("POST", req.URL.String(), strings.NewReader(strings.Repeat("body", 5000)))
	case "redirected":
		req.URL.Path = "/redirect"
	case "ownstate":
		setOwnState(req)
	case "http2", "http2own", "http2ownstate":
		client = w.tls.Client()
		req, _ = http.NewRequest("GET", w.tls.URL+path, nil)
		if how == "http2ownstate" {
			setOwnState(req)
		}
		if how == "http2own" {
			req.Header.Set("traceparent", ownParent)
		}
	case "http2post":
		client = w.tls.Client()
		req, _ = http.NewRequest("POST", w.tls.URL+path, strings.NewReader(strings.Repeat("body", 5000)))
	case "http2long":
		client = w.tls.Client()
		req, _ = http.NewRequest("GET", w.tls.URL+path+"?"+strings.Repeat("x", 3000), nil)
	case "large":
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, WriteBufferSize: 1 << 20}}
	case "new":
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error() + "\n"
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	return string(answer)
}

func init() {
	for _, url := range os.Args[1:] {
		resp, err := http.Get(url)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
	}
}

func setOwnState(req *http.Request) {
	req.Header.Set("tracestate", "own=1")
	req.Header.Set("baggage", "own=2")
}
