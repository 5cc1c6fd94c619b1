// Command orders is the program that the examples of the help texts observe.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var (
	stock   sync.Mutex
	pending = make(chan int)
)

func worker() {
	for n := range pending {
		stock.Lock()
		time.Sleep(time.Duration(n%3) * time.Millisecond)
		stock.Unlock()
	}
}

func handler(n int) {
	pprof.Do(context.Background(), pprof.Labels("tenant", "acme"), func(context.Context) { pending <- n })
}

// stuck sends to a channel that nobody reads.
func stuck() { make(chan int) <- 1 }

// Store has the prices of orders.
type Store struct{ prices map[int]float64 }

// Get returns a price.
//
//go:noinline
func (s *Store) Get(id int) (float64, error) {
	price, ok := s.prices[id]
	if !ok {
		return 0, fmt.Errorf("no order %d", id)
	}
	return price, nil
}

// checkout returns what an order costs.
//
//go:noinline
func checkout(s *Store, id int) string {
	price, err := s.Get(id)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.2f", price)
}

// serve serves requests, and sends them.
func serve() {
	store := &Store{map[int]float64{1: 9.95}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(150 * time.Millisecond)
		}
		fmt.Fprintln(w, checkout(store, len(r.URL.Path)%2+1))
	}))
	for n := 0; ; n++ {
		path := "/order"
		if n%10 == 0 {
			path = "/slow"
		}
		if resp, err := http.Get(server.URL + path); err == nil {
			resp.Body.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func main() {
	flag.Int("port", 0, "as in the examples; not used")
	flag.Parse()
	runtime.SetMutexProfileFraction(1)
	runtime.MemProfile(nil, true) // a program that does not refer to it has no memory profile
	var end <-chan time.Time
	if d, err := time.ParseDuration(os.Getenv("ORDERS_FOR")); err == nil {
		end = time.After(d)
	}
	for range 4 {
		go worker()
	}
	go serve()
	fmt.Println("ready")
	tick := time.NewTicker(2 * time.Millisecond)
	for n := 0; ; n++ {
		select {
		case <-end:
			return
		case <-tick.C:
			go handler(n)
		}
		if n%50 == 0 {
			go stuck()
			runtime.GC() // which notes since when goroutines wait
		}
	}
}
