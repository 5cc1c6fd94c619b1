// Web serves HTTP and HTTP/2, and sends requests to itself. Before its function main it requests the URLs in its arguments.
//
// It adds the command `exec`, which replaces it by itself, and `address`, which answers with the addresses of its servers:
// `address PLAIN TLS`. They serve the paths
//
//	/hello            answers hello
//	/status/N         answers with status N
//	/items/ID         is the pattern "GET /items/{id}" from Go 1.22 on
//	/many?n=N         sends N requests for /hello one after the other
//	/fan?n=N          sends N requests for /hello, each in a goroutine of its own, two levels deep
//	/http2?n=N        sends N requests for /hello with HTTP/2
//	/dead             sends a request to a port at which no server listens
//	/later            answers, and then sends a request in a goroutine that it has started
//	/pooled           has a goroutine that exists already send a request
//	/pool/HOW/NAME?n=N  has goroutines that exist already send N requests for /hello?for=NAME with its context: the same or one made from
//	                  it by other types of package context (request, values, timeout, detached), types of the program (own, writer),
//	                  by HTTP/2 (http2), another one (background); or has the goroutine of /lend send them (lent)
//	/lend?n=N         sends N requests of others, and then one for /hello?for=lend
//	/panic, /exit     panics, or calls runtime.Goexit
//	/hijack           answers by itself on the connection that it takes over
//	/wait?for=KIND    waits 20 ms: for sleep, chan, select, lock, network, group; or runs as long: for cpu
//	/echo             answers with the body of the request
//	/busy/N           answers after 2 ms with status 200 + N modulo 300
//	/pause            answers after 20 ms
//	/received         answers with the number of traceparent headers of the request, and the first one
//	/carried          answers with the number of tracestate and baggage headers of the request, and the first ones: `N STATE|M BAGGAGE`
//	/send?n=N&as=HOW  sends N requests for /received, at once, and answers with their answers: as=plain; with one header map for all of
//	                  them (shared); with traceparent headers of its own (own, lower); with a long URL (long); with a body (post);
//	                  that redirect to it (redirected); on connections of their own (new); by HTTP/2, also with these (http2, http2own,
//	                  http2long, http2post); with tracestate and baggage headers of its own (ownstate, http2ownstate)
//	/send?n=N&as=HOW&to=carried  sends requests for /carried
//	/send?n=N&as=large  sends N requests on connections of their own with buffers of 1 MB
//	/grow/N           allocates N MB, which it keeps, and answers with the number of bytes by which the heap has grown
//	/allocate/HOW/N   allocates N objects, and answers with how many bytes and objects that was; see allocate.go
//	/truth/KIND/N     does something in a region "request N" of the trace; see truth.go
//
// The command `trace FILE` records an execution trace until `stop`.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	w := newWeb()
	serve(false, map[string]command{
		"exec": again,
		"address": func([]string) string {
			return "address " + w.plain.Listener.Addr().String() + " " + w.tls.Listener.Addr().String()
		},
		"trace": w.truth.begin,
		"stop":  w.truth.stop,
	})
}

// again executes the program anew.
func again([]string) string {
	return "error " + syscall.Exec("/proc/self/exe", os.Args, os.Environ()).Error()
}

type web struct {
	plain, tls *httptest.Server
	dead       string // URL of a port at which no server listens
	work       chan func()
	mu         sync.Mutex
	truth      *truth
}

func newWeb() *web {
	w := &web{work: make(chan func())}
	go w.pool()
	w.truth = newTruth(w)
	p := newPool(w)
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, "hello") })
	mux.HandleFunc("/status/", status)
	handleItems(mux)
	mux.HandleFunc("/many", func(rw http.ResponseWriter, r *http.Request) { w.many(rw, r) })
	mux.HandleFunc("/fan", func(rw http.ResponseWriter, r *http.Request) { w.fan(rw, r) })
	mux.HandleFunc("/http2", func(rw http.ResponseWriter, r *http.Request) { w.http2(rw, r) })
	mux.HandleFunc("/dead", func(rw http.ResponseWriter, r *http.Request) { get(rw, w.plain.Client(), w.dead) })
	mux.HandleFunc("/later", func(rw http.ResponseWriter, r *http.Request) { w.later(rw, r) })
	mux.HandleFunc("/pooled", func(rw http.ResponseWriter, r *http.Request) { w.pooled(rw, r) })
	mux.HandleFunc("/pool/", p.serve)
	mux.HandleFunc("/lend", p.lend)
	mux.HandleFunc("/panic", func(rw http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/exit", func(rw http.ResponseWriter, r *http.Request) { runtime.Goexit() })
	mux.HandleFunc("/hijack", hijack)
	mux.HandleFunc("/wait", func(rw http.ResponseWriter, r *http.Request) { w.wait(r.URL.Query().Get("for")) })
	mux.HandleFunc("/echo", func(rw http.ResponseWriter, r *http.Request) { io.Copy(rw, r.Body) })
	mux.HandleFunc("/busy/", busy)
	mux.HandleFunc("/pause", func(http.ResponseWriter, *http.Request) { time.Sleep(pause) })
	mux.HandleFunc("/received", received)
	mux.HandleFunc("/carried", carried)
	mux.HandleFunc("/redirect", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/received", http.StatusFound) })
	mux.HandleFunc("/send", func(rw http.ResponseWriter, r *http.Request) { w.send(rw, r) })
	mux.HandleFunc("/allocate/", func(rw http.ResponseWriter, r *http.Request) { w.allocate(rw, r) })
	mux.HandleFunc("/grow/", grow)
	mux.HandleFunc("/truth/", func(rw http.ResponseWriter, r *http.Request) { w.truth.serve(rw, r) })
	w.plain = httptest.NewServer(mux)
	w.tls = httptest.NewUnstartedServer(mux)
	w.tls.EnableHTTP2 = true
	w.tls.StartTLS()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	w.dead = "http://" + l.Addr().String() + "/dead?sig=secret&x=1"
	l.Close()
	return w
}

func (w *web) pool() {
	for f := range w.work {
		f()
	}
}

func count(r *http.Request) int {
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	return n
}

func status(rw http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Path[len("/status/"):])
	rw.WriteHeader(n)
}

func busy(rw http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Path[len("/busy/"):])
	time.Sleep(2 * time.Millisecond)
	rw.WriteHeader(200 + n%300)
}

func get(rw http.ResponseWriter, c *http.Client, url string) {
	resp, err := c.Get(url)
	if err != nil {
		http.Error(rw, "failed", http.StatusBadGateway)
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

func (w *web) many(rw http.ResponseWriter, r *http.Request) {
	for i := 0; i < count(r); i++ {
		get(rw, w.plain.Client(), w.plain.URL+"/hello")
	}
}

func (w *web) fan(rw http.ResponseWriter, r *http.Request) {
	var all sync.WaitGroup
	for i := 0; i < count(r); i++ {
		all.Add(1)
		go func() {
			go func() {
				defer all.Done()
				get(rw, w.plain.Client(), w.plain.URL+"/hello")
			}()
		}()
	}
	all.Wait()
}

func (w *web) http2(rw http.ResponseWriter, r *http.Request) {
	for i := 0; i < count(r); i++ {
		get(rw, w.tls.Client(), w.tls.URL+"/hello")
	}
}

func (w *web) later(rw http.ResponseWriter, r *http.Request) {
	go func() {
		time.Sleep(20 * time.Millisecond)
		get(httptest.NewRecorder(), w.plain.Client(), w.plain.URL+"/hello")
		get(httptest.NewRecorder(), w.plain.Client(), w.plain.URL+"/hello")
	}()
}

func (w *web) pooled(rw http.ResponseWriter, r *http.Request) {
	done := make(chan bool)
	w.work <- func() {
		get(rw, w.plain.Client(), w.plain.URL+"/hello")
		close(done)
	}
	<-done
}

func hijack(rw http.ResponseWriter, r *http.Request) {
	conn, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusNotImplemented)
		return
	}
	fmt.Fprint(conn, "HTTP/1.1 299 Own\r\nContent-Length: 3\r\nConnection: close\r\n\r\nown")
	conn.Close()
}

const pause = 20 * time.Millisecond

// wait waits in one way.
func (w *web) wait(kind string) {
	later, never := make(chan bool), make(chan bool)
	switch kind {
	case "sleep":
		time.Sleep(pause)
	case "chan":
		time.AfterFunc(pause, func() { close(later) })
		<-later
	case "select":
		time.AfterFunc(pause, func() { close(later) })
		select {
		case <-later:
		case <-never:
		}
	case "lock":
		w.mu.Lock()
		time.AfterFunc(pause, w.release)
		w.mu.Lock()
		w.mu.Unlock()
	case "group":
		var all sync.WaitGroup
		all.Add(1)
		time.AfterFunc(pause, all.Done)
		all.Wait()
	case "network":
		readSlowly(pause)
	case "cpu":
		for begin := time.Now(); time.Since(begin) < pause; {
		}
	}
}

//go:noinline
func (w *web) release() { w.mu.Unlock() }

// readSlowly reads from a connection on which data arrives after a pause.
func readSlowly(pause time.Duration) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		panic(err)
	}
	time.AfterFunc(pause, func() { s.Close() })
	c.Read(make([]byte, 1))
}
