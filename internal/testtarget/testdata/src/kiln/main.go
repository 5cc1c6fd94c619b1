// Kiln serves HTTP, and uses processor time in functions that say for whom: a profiler can check what it is told.
//
// It adds the command `address`, which answers with the addresses of its servers: `address PLAIN TLS`. They serve the paths
//
//	/burn?us=N       uses N microseconds in main.burn
//	/sleep?us=N      sleeps N microseconds, and uses as many in main.burn
//	/move?us=N       uses N microseconds in main.burn and yields or makes a blocking system call after each tenth, so that it moves
//	                 between threads
//	/fan?us=N        uses N microseconds in each of 4 goroutines that it starts, in main.burnChild, and waits for them
//	/outlive?us=N    starts a goroutine that uses N microseconds in main.burnAfter and yields after each tenth, and answers after a third
//	                 of that time
//	/panic?us=N      uses N microseconds in main.burn, and panics
//
// All the time, one goroutine that belongs to no request uses half of a processor in main.burnOutside.
package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

func main() {
	mux := http.NewServeMux()
	for path, serve := range map[string]func(time.Duration){"/burn": burn, "/sleep": sleep, "/move": move, "/fan": fan, "/outlive": outlive, "/panic": stop} {
		serve := serve
		mux.HandleFunc(path, func(rw http.ResponseWriter, r *http.Request) {
			us, _ := strconv.Atoi(r.URL.Query().Get("us"))
			serve(time.Duration(us) * time.Microsecond)
		})
	}
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	go func() {
		for {
			burnOutside(time.Millisecond)
			time.Sleep(time.Millisecond)
		}
	}()
	serve(false, map[string]command{"address": func([]string) string {
		return "address " + plain.Listener.Addr().String() + " " + secure.Listener.Addr().String()
	}})
}

var sink uint64

// spin uses processor time. It is inlined into the functions that say for whom.
func spin(x uint64) uint64 {
	for i := 0; i < 1000; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

//go:noinline
func burn(d time.Duration) {
	x := uint64(1)
	for began := time.Now(); time.Since(began) < d; {
		x = spin(x)
	}
	if x == 0 {
		sink = x
	}
}

//go:noinline
func burnChild(d time.Duration) {
	x := uint64(2)
	for began := time.Now(); time.Since(began) < d; {
		x = spin(x)
	}
	if x == 0 {
		sink = x
	}
}

//go:noinline
func burnAfter(d time.Duration) {
	x := uint64(3)
	for began := time.Now(); time.Since(began) < d; {
		x = spin(x)
	}
	if x == 0 {
		sink = x
	}
}

//go:noinline
func burnOutside(d time.Duration) {
	x := uint64(4)
	for began := time.Now(); time.Since(began) < d; {
		x = spin(x)
	}
	if x == 0 {
		sink = x
	}
}

func sleep(d time.Duration) {
	time.Sleep(d)
	burn(d)
}

func move(d time.Duration) {
	for i := 0; i < 10; i++ {
		burn(d / 10)
		switch i % 3 {
		case 0:
			runtime.Gosched()
		case 1:
			block()
		case 2:
			done := make(chan bool)
			go close(done)
			<-done
		}
	}
}

// block makes a system call that the runtime takes the P from meanwhile.
func block() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	defer w.Close()
	go func() {
		time.Sleep(200 * time.Microsecond)
		w.Write([]byte{1})
	}()
	r.Fd() // it blocks from now on
	r.Read(make([]byte, 1))
}

func fan(d time.Duration) {
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			burnChild(d)
		}()
	}
	all.Wait()
}

func outlive(d time.Duration) {
	go func() {
		for i := 0; i < 10; i++ {
			burnAfter(d / 10)
			runtime.Gosched()
		}
	}()
	time.Sleep(d / 3)
}

func stop(d time.Duration) {
	burn(d)
	panic(http.ErrAbortHandler)
}
