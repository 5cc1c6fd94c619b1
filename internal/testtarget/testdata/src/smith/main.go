// Smith has functions of all forms, calls them on command, and counts the calls. It is for tests that observe functions.
//
// It adds the commands
//
//	address       answers with the address of its server
//	run NAME N    calls functions in the way that NAME names, N times, and answers when they have returned
//	start, stop   begins and ends to call functions, panic, end goroutines and move stacks, all at the same time
//	counts        answers with the number of calls of each function so far, as JSON
//	values        answers with the addresses that were passed to functions, as JSON
//
// The server serves /get?key=KEY, which calls (*store).get, /spawn?key=KEY, which does so on another goroutine, and /panic, whose handler
// panics in a function.
//
// Functions whose names begin with "big" and most others have large frames, so that they can be probed by engine inline. The frames of
// those whose names begin with "small" are small.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	mu        sync.Mutex
	calls     = map[string]int{}
	addresses = map[string]string{}
)

// count counts a call.
func count(name string) {
	mu.Lock()
	calls[name]++
	mu.Unlock()
}

// room makes the frame of a function large.
type room [256]byte

//go:noinline
func use(r *room) { r[0]++ }

func main() {
	mux := http.NewServeMux()
	s := &store{m: map[string]string{"a": "1", "b": "2"}}
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		s.get(r.URL.Query().Get("key"), 3)
	})
	mux.HandleFunc("/spawn", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan bool)
		key := r.URL.Query().Get("key")
		go func() {
			s.get(key, 4)
			close(done)
		}()
		<-done
	})
	mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) {
		fails(2)
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = nil
	server.Start()
	ways := map[string]func(*store, int){"values": values, "recursion": recursion, "growth": growth, "panics": panics, "nested": nestedPanics, "goexit": goexit,
		"returns": returns, "generic": generic, "closures": closures, "inlined": inlined, "naps": naps, "many": many, "small": small, "words": words, "hot": hot, "deferred": deferred,
		"assembled": callsAssembled, "methods": methods}
	var stop, ended chan bool
	serve(false, map[string]command{
		"address": func([]string) string { return "address " + server.Listener.Addr().String() },
		"run": func(args []string) string {
			n, _ := strconv.Atoi(args[1])
			done := make(chan bool)
			go func() {
				defer close(done)
				ways[args[0]](s, n)
			}()
			<-done
			return "done"
		},
		"start": func([]string) string {
			stop, ended = make(chan bool), make(chan bool)
			go func() {
				defer close(ended)
				churn(s, stop)
			}()
			return "started"
		},
		"stop": func([]string) string {
			close(stop)
			<-ended
			return "stopped"
		},
		"counts": func([]string) string { return marshal(calls) },
		"values": func([]string) string { return marshal(addresses) },
	})
}

func marshal(v interface{}) string {
	mu.Lock()
	defer mu.Unlock()
	b, _ := json.Marshal(v)
	return string(b)
}

type store struct{ m map[string]string }

var errMissing = errors.New("missing")

//go:noinline
func (s *store) get(key string, n int) (string, error) {
	var r room
	use(&r)
	count("main.(*store).get")
	if v, ok := s.m[key]; ok {
		return v + strings.Repeat("x", n), nil
	}
	if key == "wrapped" {
		return "", fmt.Errorf("key %q: %w", key, errMissing)
	}
	if key == "other" {
		return "", &os.PathError{Op: "open", Path: key, Err: errMissing}
	}
	return "", errMissing
}

type options struct {
	a int
	b string
	f float64
}

type level uint8

func (l level) String() string { return "level" }

//go:noinline
func scalars(i int, i8 int8, i32 int32, u uint64, l level, ok bool, p *int, m map[string]int) (int, bool, *int, uint16) {
	var r room
	use(&r)
	count("main.scalars")
	return -i, !ok, p, uint16(u)
}

//go:noinline
func texts(s string, b []byte, e error, a interface{}, st fmt.Stringer, _ string) (string, []string, error) {
	var r room
	use(&r)
	count("main.texts")
	return s, make([]string, len(b)+1), e
}

//go:noinline
func others(f float64, n int, g float32, o options, list [2]int, c complex128, last int) (float64, options, int) {
	var r room
	use(&r)
	count("main.others")
	return f, o, n + last
}

type seven struct{ a, b, c, d, e, f, g int }

// crowd has more parameters and results than fit into registers.
//
//go:noinline
func crowd(o seven, a int, s string, k int8, x int16, t string) (seven, int16, string, string) {
	var r room
	use(&r)
	count("main.crowd")
	return o, x, t, s
}

func values(s *store, n int) {
	x := 5
	m := map[string]int{}
	mu.Lock()
	addresses["x"], addresses["m"], addresses["s"] = fmt.Sprintf("%p", &x), fmt.Sprintf("%p", m), fmt.Sprintf("%p", s)
	mu.Unlock()
	for k := 0; k < n; k++ {
		scalars(-k, -8, -70000, 1<<63+7, 3, k%2 == 0, &x, m)
		scalars(7, 127, 1<<30, 65537, 255, true, nil, nil)
		texts("text", []byte("abc"), nil, nil, nil, "unused")
		texts(strings.Repeat("é", 50), nil, errMissing, 5, level(2), "")
		texts("\xff\x00", make([]byte, 9), fmt.Errorf("wrapped: %w", errMissing), "text", &x2{}, "")
		others(1.5, 10, 2.5, options{a: 1}, [2]int{}, 0, 5)
		crowd(seven{}, 1, "first", -2, -3, "second")
		for _, key := range []string{"a", "none", "wrapped", "other"} {
			s.get(key, 2)
		}
	}
}

type x2 struct{}

func (*x2) String() string { return "" }

//go:noinline
func sign(n int) string {
	var r room
	count("main.sign")
	switch {
	case n < 0:
		use(&r)
		return "negative"
	case n == 0:
		return "zero"
	}
	use(&r)
	return "positive"
}

func returns(_ *store, n int) {
	for k := 0; k < n; k++ {
		sign(k - 1)
	}
}

//go:noinline
func apply[T, U any](list []T, f func(T) U) (U, int) {
	var r room
	use(&r)
	count("main.apply[...]")
	var last U
	for _, v := range list {
		last = f(v)
	}
	return last, len(list)
}

type list[T any] struct{ all []T }

//go:noinline
func (l *list[T]) push(v T) int {
	var r room
	use(&r)
	count("main.(*list[...]).push")
	l.all = append(l.all, v)
	return len(l.all)
}

func generic(_ *store, n int) {
	for k := 0; k < n; k++ {
		apply([]int{k, 2}, func(i int) string { return strconv.Itoa(i) })
		apply([]string{"a"}, func(s string) int { return len(s) })
		(&list[int]{}).push(k)
		(&list[string]{}).push("pushed")
	}
}

// makeAdder returns a closure.
//
//go:noinline
func makeAdder(n int) func(int) int {
	return func(m int) int {
		var r room
		use(&r)
		count("main.makeAdder.func1")
		n += m
		return n
	}
}

func closures(_ *store, n int) {
	add := makeAdder(10)
	for k := 0; k < n; k++ {
		add(k)
	}
}

// always is inlined everywhere, sometimes where it is called directly.
func always(n int) int { return n * 3 }

func sometimes(n int) int { return n*5 + len(calls) }

var indirect = []func(int) int{sometimes}

var total int

func inlined(_ *store, n int) {
	for k := 0; k < n; k++ {
		total += always(k) + sometimes(k)
		total += indirect[k%len(indirect)](k)
		mu.Lock()
		calls["main.sometimes"]++
		mu.Unlock()
	}
}

// forever never returns.
//
//go:noinline
func forever(c chan bool) {
	for range time.Tick(time.Hour) {
		c <- true
	}
	select {}
}

// nap sleeps, and returns how long that took.
//
//go:noinline
func nap(d time.Duration) time.Duration {
	var r room
	use(&r)
	count("main.nap")
	begin := time.Now()
	time.Sleep(d)
	return time.Since(begin)
}

func naps(_ *store, n int) {
	var wg sync.WaitGroup
	for k := 0; k < 50; k++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < n; i++ {
				nap(time.Millisecond)
				runtime.Gosched()
				recurse(2)
			}
		}()
	}
	wg.Wait()
}

// many calls functions from many goroutines that wait for each other.
func many(_ *store, n int) {
	c := make(chan int)
	var wg sync.WaitGroup
	for k := 0; k < 64; k++ {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for i := 0; i < n; i++ {
				sends(c, i)
			}
		}()
		go func() {
			defer wg.Done()
			for i := 0; i < n; i++ {
				receives(c)
			}
		}()
	}
	wg.Wait()
}

// churn calls functions, panics, ends goroutines and moves stacks at the same time, until stop is closed.
func churn(s *store, stop chan bool) {
	var wg sync.WaitGroup
	for _, way := range []func(*store, int){panics, goexit, growth, many} {
		way := way
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				way(s, 1)
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	wg.Wait()
}

//go:noinline
func sends(c chan int, n int) {
	var r room
	use(&r)
	count("main.sends")
	c <- n
	use(&r)
}

//go:noinline
func receives(c chan int) int {
	var r room
	use(&r)
	count("main.receives")
	return <-c
}

//go:noinline
func smallest(a, b int) int {
	if a < b {
		return a
	}
	return b
}

//go:noinline
func smaller(a, b int) int {
	count("main.smaller")
	return smallest(a, b)
}

// parity has a small frame. An instruction that is long precedes each of its returns.
//
//go:noinline
func parity(n int) string {
	count("main.parity")
	mu.Lock()
	total += n
	mu.Unlock()
	if n%2 == 0 {
		return "an even number"
	}
	return "an odd number"
}

func words(_ *store, n int) {
	for k := 0; k < n; k++ {
		parity(k)
	}
}

func small(_ *store, n int) {
	for k := 0; k < n; k++ {
		total += smaller(k, 5)
		count("main.smallest")
	}
}

//go:noinline
func hottest(n int) int {
	var r room
	use(&r)
	return n + 1
}

func hot(_ *store, n int) {
	for k := 0; k < n; k++ {
		hottest(k)
	}
	mu.Lock()
	calls["main.hottest"] += n
	mu.Unlock()
}

// delays has deferred calls, which change its result.
//
//go:noinline
func delays(n int) (sum int, err error) {
	var r room
	use(&r)
	count("main.delays")
	for k := 0; k < n; k++ {
		defer func() { sum += leaf(1) }()
	}
	return 5, nil
}

// opens has one deferred call, which the compiler makes without the runtime.
//
//go:noinline
func opens(n int) (sum int, err error) {
	var r room
	use(&r)
	count("main.opens")
	defer func() {
		sum++
		err = errMissing
	}()
	return n, nil
}

func deferred(_ *store, n int) {
	for k := 0; k < n; k++ {
		delays(2)
		opens(3)
	}
}

// assembled is written in assembler.
func assembled(n int) int

func callsAssembled(_ *store, n int) { total += assembled(n) }

type shape interface{ area(n int) int }

type square struct{ side int }

//go:noinline
func (s square) area(n int) int {
	var r room
	use(&r)
	count("main.square.area")
	return s.side*s.side + n
}

type embeds struct{ *square }

func methods(_ *store, n int) {
	shapes := []shape{square{2}, &square{3}, embeds{&square{4}}}
	for k := 0; k < n; k++ {
		shapes[k%3].area(k)
	}
}

func init() {
	if len(os.Args) > 5 { // keeps them in the executable
		forever(nil)
	}
}
