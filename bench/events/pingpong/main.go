// Command pingpong is a target of the events benchmark. Two goroutines send a number back and forth through unbuffered
// channels. A round trip has six events: each of the two goroutines is unblocked, blocks and starts once.
//
//	pingpong [-every 50ms]
//
// Commands on standard input control the program (see package control). An operation is a round trip.
package main

import (
	"flag"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/bench/events/control"
)

func main() {
	every := flag.Duration("every", 0, "time between round trips")
	flag.Parse()
	var trips atomic.Int64
	go play(&trips, *every)
	control.Serve("ready", trips.Load)
}

func play(trips *atomic.Int64, every time.Duration) {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v + 1
		}
	}()
	for v := 0; ; {
		ping <- v
		v = <-pong
		trips.Add(1)
		if every > 0 {
			time.Sleep(every)
		}
	}
}
