// Command work measures an operation that the patched runtime has hooks in, which its argument names, and prints the nanoseconds of
// processor time that it takes. Without argument, it lists the operations. It is compiled with and without the overlay. A second argument
// is an agent that runs meanwhile: trace records an execution trace and discards it; a program with the overlay also has counters,
// callbacks that count, and rings, and prints what the last two lose to standard error.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/trace"
	"sync"
	"syscall"
)

// An agent observes the program from start to stop.
type agent struct{ start, stop func() }

var agents = map[string]agent{
	"trace": {func() {
		if err := trace.Start(io.Discard); err != nil {
			panic(err)
		}
	}, trace.Stop},
}

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
	if len(os.Args) < 2 {
		for _, w := range workloads {
			fmt.Println(w.name)
		}
		return
	}
	if len(os.Args) > 2 {
		a, ok := agents[os.Args[2]]
		if !ok {
			panic("the program has no agent " + os.Args[2])
		}
		a.start()
		defer a.stop()
	}
	for _, w := range workloads {
		if w.name != os.Args[1] {
			continue
		}
		w.run(w.n / 10)
		best := int64(1 << 62)
		for i := 0; i < 3; i++ {
			begin := used()
			w.run(w.n / 3)
			if took := used() - begin; took < best {
				best = took
			}
		}
		fmt.Printf("%.2f\n", float64(best)/float64(w.n/3))
	}
}

// used returns the processor time of the process.
func used() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
