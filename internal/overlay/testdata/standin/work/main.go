// Command work measures operations that the patched runtime has hooks in. It prints a line with the nanoseconds of each. It is
// compiled with and without the overlay. With an argument, it lets the runtime report the events of that mask.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// enable selects events, in a program with the overlay.
var enable = func(uint64) { panic("the program has no tool interface") }

var sink any

var workloads = []struct {
	name string
	n    int
	run  func(n int)
}{
	{"ping-pong", 300_000, func(n int) {
		a, b := make(chan int), make(chan int)
		go func() {
			for v := range a {
				b <- v
			}
			close(b)
		}()
		for i := 0; i < n; i++ {
			a <- i
			<-b
		}
		close(a)
		<-b
	}},
	{"spawn", 300_000, func(n int) {
		var wg sync.WaitGroup
		for i := 0; i < n; i++ {
			wg.Add(1)
			go wg.Done()
		}
		wg.Wait()
	}},
	{"syscall", 500_000, func(n int) {
		fd, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0)
		if err != nil {
			panic(err)
		}
		defer syscall.Close(fd)
		buf := make([]byte, 1)
		for i := 0; i < n; i++ {
			syscall.Read(fd, buf)
		}
	}},
	{"mutex", 5_000_000, func(n int) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := 0; w < 2; w++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := 0; i < n/2; i++ {
					mu.Lock()
					mu.Unlock() //lint:ignore SA2001 it is the operation that is measured
				}
			}()
		}
		wg.Wait()
	}},
	{"malloc", 3_000_000, func(n int) {
		for i := 0; i < n; i++ {
			sink = new([8]int)
		}
	}},
	{"json", 30_000, func(n int) {
		type order struct {
			ID    int
			Names []string
			Price map[string]float64
		}
		o := order{1, []string{"a", "b", "c"}, map[string]float64{"x": 1.5, "y": 2.5}}
		for i := 0; i < n; i++ {
			text, _ := json.Marshal(o)
			var back order
			json.Unmarshal(text, &back)
		}
	}},
	{"net/http", 5_000, func(n int) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
		defer s.Close()
		for i := 0; i < n; i++ {
			r, err := http.Get(s.URL)
			if err != nil {
				panic(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
	}},
}

func main() {
	if len(os.Args) > 1 {
		mask, err := strconv.ParseUint(os.Args[1], 0, 64)
		if err != nil {
			panic(err)
		}
		enable(mask)
	}
	for _, w := range workloads {
		w.run(w.n / 10)
		best := time.Duration(1 << 62)
		for i := 0; i < 3; i++ {
			begin := time.Now()
			w.run(w.n)
			if took := time.Since(begin); took < best {
				best = took
			}
		}
		fmt.Printf("%s %.2f\n", w.name, float64(best.Nanoseconds())/float64(w.n))
	}
}
