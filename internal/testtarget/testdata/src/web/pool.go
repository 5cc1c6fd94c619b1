package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// A job is work that a request gives to another goroutine. It sends a request with a context.
type job struct {
	ctx    context.Context
	client *http.Client
	url    string
	done   func()
}

// A pool has goroutines that exist before the requests for which they work.
type pool struct {
	w    *web
	jobs chan job
	lent chan job // done by the goroutine of another request
}

const workers = 4

func newPool(w *web) *pool {
	p := &pool{w: w, jobs: make(chan job), lent: make(chan job)}
	for i := 0; i < workers; i++ {
		go p.work(p.jobs)
	}
	return p
}

func (p *pool) work(jobs chan job) {
	for j := range jobs {
		j.run()
	}
}

func (j job) run() {
	defer j.done()
	req, err := http.NewRequestWithContext(j.ctx, "GET", j.url, nil)
	if err != nil {
		panic(err)
	}
	resp, err := j.client.Do(req)
	if err != nil {
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

type key int

// An own context is one of the program.
type own struct {
	context.Context
	user string
}

// derive returns a context that is made from that of a request in some way.
func derive(how string, ctx context.Context, rw http.ResponseWriter) (context.Context, func()) {
	switch how {
	case "background":
		return context.Background(), func() {}
	case "values":
		for i := key(0); i < 20; i++ {
			ctx = context.WithValue(ctx, i, i)
		}
	case "timeout":
		ctx, cancel := context.WithTimeout(context.WithValue(ctx, key(0), 0), time.Minute)
		return ctx, cancel
	case "detached":
		return withoutCancel(ctx), func() {}
	case "own":
		return &own{context.WithValue(ctx, key(0), 0), "user"}, func() {}
	case "writer": // as a router does
		return &struct {
			http.ResponseWriter
			context.Context
		}{rw, context.Background()}, func() {}
	}
	return ctx, func() {}
}

// serve serves /pool/HOW/NAME?n=N and /lend.
func (p *pool) serve(rw http.ResponseWriter, r *http.Request) {
	words := strings.Split(r.URL.Path, "/")
	ctx, cancel := derive(words[2], r.Context(), rw)
	defer cancel()
	j := job{ctx: ctx, client: p.w.plain.Client(), url: p.w.plain.URL + "/hello?for=" + words[3]}
	jobs := p.jobs
	switch words[2] {
	case "http2":
		j.client, j.url = p.w.tls.Client(), p.w.tls.URL+"/hello?for="+words[3]
	case "lent":
		jobs = p.lent
	}
	var all sync.WaitGroup
	j.done = all.Done
	for i := 0; i < count(r); i++ {
		all.Add(1)
		jobs <- j
	}
	all.Wait()
}

// lend does the work of other requests until it has done N jobs.
func (p *pool) lend(rw http.ResponseWriter, r *http.Request) {
	for i := 0; i < count(r); i++ {
		j := <-p.lent
		j.run()
	}
	get(httptest.NewRecorder(), p.w.plain.Client(), p.w.plain.URL+"/hello?for=lend")
}
