// Pantry uses a Redis client. It builds with each version that a file such as redis-9.23.mod names; the build tag redis8 selects the
// major version 8.
//
// It adds the commands
//
//	connect ADDRESS SOCKET [CLUSTER RING SENTINEL]  makes the clients of a server, and those of a node of a cluster, a second server, and a
//	                 sentinel
//	do CLIENT COMMAND...   sends a command. The answer is `ok` or `failed TEXT`; a missing value is `nil`. The clients are plain
//	                 (database 3), zero (database 0), hasty (timeouts of 50 ms, no retries), eager (three retries), conn (one
//	                 connection of plain), cluster, stale (of the cluster, but sends everything to one node), ring, failover, refused (two retries), lost (many retries, a long time between
//	                 them), flaky (its server drops connections; one connection), unix
//	pipe CLIENT COMMAND... , COMMAND...  sends the commands in a pipeline
//	multi CLIENT COMMAND... , COMMAND...  sends them in a transaction
//	watch CLIENT KEY OTHER  reads the key and writes it in a transaction that watches it. If OTHER is `other`, another client writes it, too
//	timeout MS       bounds the next operation; 0: its context is canceled
//	drop N           the server of flaky drops the next N connections
//	flaky            answers with the address of that server
//	panic CLIENT     sends a value that panics when it is encoded
//	goexit CLIENT    sends a value that ends the goroutine when it is encoded
//	subscribe CHANNEL  subscribes to a channel of plain, and publishes a message
//	inside COMMAND...  does that in a request of HTTP
//	pooled COMMAND...  has another goroutine do that for a request of HTTP
//	load G N         performs N requests of HTTP on each of G goroutines; each sends a command, a pipeline and a transaction
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client is what the clients have in common.
type client interface {
	Process(context.Context, cmder) error
	Pipelined(context.Context, func(pipeliner) error) ([]cmder, error)
	TxPipelined(context.Context, func(pipeliner) error) ([]cmder, error)
}

type pantry struct {
	clients map[string]client
	timeout time.Duration // of the next operation; negative: none
	held    []context.CancelFunc
	server  *httptest.Server
	dropped int32 // number of connections that flaky's server is to drop
	addr    string
	flaky   string // the address of its server
}

func main() {
	p := &pantry{timeout: -1}
	pool := elsewhere(4)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pooled" {
			args := strings.Fields(r.URL.Query().Get("do"))
			pool(func() { fmt.Fprint(w, answerOf(p.perform(r.Context(), args[0], p.clients[args[1]], args[1:]))) })
			return
		}
		fmt.Fprint(w, p.execute(strings.Fields(r.URL.Query().Get("do"))))
	}))
	commands := map[string]command{
		"connect": p.connect,
		"timeout": func(args []string) string {
			p.timeout = time.Duration(number(args[0])) * time.Millisecond
			return "ok"
		},
		"drop": func(args []string) string {
			atomic.StoreInt32(&p.dropped, int32(number(args[0])))
			return "ok"
		},
		"flaky":  func([]string) string { return p.flaky },
		"inside": func(args []string) string { return p.inside("/", args) },
		"pooled": func(args []string) string { return p.inside("/pooled", args) },
		"load":   p.load,
	}
	for _, name := range []string{"do", "pipe", "multi", "watch", "panic", "goexit", "subscribe"} {
		name := name
		commands[name] = func(args []string) string { return p.execute(append([]string{name}, args...)) }
	}
	serve(false, commands)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func (p *pantry) connect(args []string) string {
	p.addr = args[0]
	// Some versions attempt to connect several times, with pauses of 100 ms.
	newClient := func(o *options) *redisClient {
		for name, value := range map[string]int64{"DialerRetries": 1, "DialerRetryTimeout": int64(time.Millisecond)} {
			if f := reflect.ValueOf(o).Elem().FieldByName(name); f.IsValid() {
				f.SetInt(value)
			}
		}
		return newClient(o)
	}
	plain := newClient(&options{Addr: args[0], DB: 3})
	p.flaky = p.proxy()
	p.clients = map[string]client{
		"plain":   plain,
		"zero":    newClient(&options{Addr: args[0]}),
		"hasty":   newClient(&options{Addr: args[0], ReadTimeout: 50 * time.Millisecond, MaxRetries: -1}),
		"eager":   newClient(&options{Addr: args[0], ReadTimeout: 50 * time.Millisecond, MaxRetries: 3, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 2 * time.Millisecond}),
		"conn":    connOf(plain),
		"refused": newClient(&options{Addr: "127.0.0.1:1", MaxRetries: 2, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 2 * time.Millisecond}),
		"lost":    newClient(&options{Addr: "127.0.0.1:1", MaxRetries: 9, MinRetryBackoff: time.Hour, MaxRetryBackoff: 2 * time.Hour}),
		"flaky":   newClient(&options{Addr: p.flaky, MaxRetries: 2, PoolSize: 1, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 2 * time.Millisecond}),
		"unix":    newClient(&options{Network: "unix", Addr: args[1]}),
	}
	if len(args) > 2 {
		p.clients["cluster"], p.clients["stale"] = newCluster(args[2]), newStale(args[2])
		p.clients["ring"], p.clients["failover"] = newRing(args[0], args[3]), newFailover(args[4])
	}
	return "ok"
}

// proxy is a server that passes connections to the first server, except those that it drops.
func (p *pantry) proxy() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			if atomic.AddInt32(&p.dropped, -1) >= 0 {
				from.Read(make([]byte, 4096))
				from.Close()
				continue
			}
			to, err := net.Dial("tcp", p.addr)
			if err != nil {
				from.Close()
				continue
			}
			go func() {
				io.Copy(to, from)
				to.Close()
			}()
			go func() {
				io.Copy(from, to)
				from.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func (p *pantry) context() context.Context {
	if p.timeout < 0 {
		return context.Background()
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	if p.timeout == 0 {
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
	}
	p.held = append(p.held, cancel)
	p.timeout = -1
	return ctx
}

// execute performs one of the operations. A panic is an error.
func (p *pantry) execute(args []string) (answer string) {
	defer func() {
		if r := recover(); r != nil {
			answer = fmt.Sprint("panic ", r)
		}
	}()
	return answerOf(p.perform(p.context(), args[0], p.clients[args[1]], args[1:]))
}

func answerOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, missing):
		return "nil"
	}
	return "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
}

func (p *pantry) perform(ctx context.Context, operation string, c client, args []string) (err error) {
	switch operation {
	case "do":
		return c.Process(ctx, newCmd(ctx, values(args[1:])...))
	case "pipe":
		_, err = c.Pipelined(ctx, queue(ctx, args[1:]))
	case "multi":
		_, err = c.TxPipelined(ctx, queue(ctx, args[1:]))
	case "watch":
		return p.watch(ctx, c, args[1], args[2] == "other")
	case "panic":
		return c.Process(ctx, newCmd(ctx, "set", "k", encoder(func() { panic("cannot encode") })))
	case "goexit":
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Process(ctx, newCmd(ctx, "set", "k", encoder(runtime.Goexit)))
		}()
		<-done
	case "subscribe":
		return subscribe(ctx, p.clients["plain"], args[0])
	}
	return err
}

func values(args []string) []interface{} {
	list := make([]interface{}, len(args))
	for i, a := range args {
		list[i] = a
		if strings.HasPrefix(a, "#") {
			list[i] = number(a[1:])
		}
	}
	return list
}

// queue adds commands, which commas separate, to a pipeline.
func queue(ctx context.Context, args []string) func(pipeliner) error {
	return func(pipe pipeliner) error {
		for _, c := range strings.Split(strings.Join(args, " "), " , ") {
			if err := pipe.Process(ctx, newCmd(ctx, values(strings.Fields(c))...)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p *pantry) watch(ctx context.Context, c client, key string, other bool) error {
	return watch(ctx, c, func(tx transaction) error {
		if err := tx.Process(ctx, newCmd(ctx, "get", key)); err != nil && !errors.Is(err, missing) {
			return err
		}
		if other {
			if err := c.Process(ctx, newCmd(ctx, "set", key, "theirs")); err != nil {
				return err
			}
		}
		_, err := tx.TxPipelined(ctx, queue(ctx, []string{"set", key, "ours", ",", "incr", key + ":n"}))
		return err
	}, key)
}

// An encoder is a value that calls a function when it is encoded.
type encoder func()

func (e encoder) MarshalBinary() ([]byte, error) {
	e()
	return nil, nil
}

func (p *pantry) inside(path string, args []string) string {
	response, err := http.Get(p.server.URL + path + "?do=" + url.QueryEscape(strings.Join(args, " ")))
	if err != nil {
		return "failed " + err.Error()
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return "failed " + err.Error()
	}
	return string(answer)
}

func (p *pantry) load(args []string) string {
	var wg sync.WaitGroup
	var failures int32
	for g := 0; g < number(args[0]); g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < number(args[1]); i++ {
				for _, do := range []string{"do plain incr n", "pipe plain incr a , incr b", "multi plain incr a , get b"} {
					if p.inside("/", strings.Fields(do)) != "ok" {
						atomic.AddInt32(&failures, 1)
					}
				}
			}
		}()
	}
	wg.Wait()
	return fmt.Sprintf("load %d", failures)
}
