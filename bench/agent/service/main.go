// Command service is a service as there are many: it answers requests with JSON that it takes from a cache with a lock and from a worker. It prints
// its address, and answers each line of its stdin: "hold N" starts N goroutines that wait, and "events N" creates N/3 goroutines a second, each of
// which makes about three events.
//
// With the build tag collector it also serves the metrics of client_golang's Go collector at /metrics.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

type order struct {
	ID    int
	Name  string
	Price float64
	Tags  []string
}

type shop struct {
	mu     sync.RWMutex
	orders map[int][]order
	asked  chan question
}

type question struct {
	key    int
	answer chan []order
}

func main() {
	s := &shop{orders: map[int][]order{}, asked: make(chan question)}
	for range 4 {
		go s.work()
	}
	http.HandleFunc("/orders", s.serve)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go http.Serve(l, nil)
	fmt.Println(l.Addr())
	rates := make(chan int)
	go create(rates)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var command string
		var n int
		fmt.Sscan(in.Text(), &command, &n)
		switch command {
		case "hold":
			for range n {
				go func() { select {} }()
			}
		case "events":
			rates <- n
		}
		fmt.Println("ok")
	}
}

// work answers questions that the cache has no answer to.
func (s *shop) work() {
	for q := range s.asked {
		list := make([]order, 20)
		for i := range list {
			list[i] = order{ID: q.key*100 + i, Name: fmt.Sprint("order ", q.key, i), Price: float64(i) * 1.25, Tags: []string{"new", "paid"}}
		}
		q.answer <- list
	}
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	key := int(time.Now().UnixNano() / 1e6 % 1000)
	s.mu.RLock()
	list, ok := s.orders[key]
	s.mu.RUnlock()
	if !ok || key%10 == 0 {
		q := question{key, make(chan []order)}
		s.asked <- q
		list = <-q.answer
		s.mu.Lock()
		s.orders[key] = list
		s.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(list)
}

// create creates goroutines at the rates that it receives.
func create(rates <-chan int) {
	const every = time.Millisecond
	for rate := range rates {
		for begin, done := time.Now(), 0; rate > 0; {
			select {
			case rate = <-rates:
				begin, done = time.Now(), 0
			case <-time.After(every):
			}
			for due := int(time.Since(begin).Seconds() * float64(rate) / 3); done < due; done++ {
				go func() {}()
			}
		}
	}
}
