package loupe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"path"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/live"
)

// This example shows the live state of a process: how many goroutines there are, where they were created, whether they
// become more, and how long they wait for a processor.
func Example_liveState() {
	shop := startShop()
	defer shop.close()
	s, err := loupe.Attach(context.Background(), loupe.PID(shop.pid()), loupe.Options{})
	if err != nil {
		log.Fatal(err)
	}
	o := live.Observe(s, live.Options{})
	defer o.Close() // closes the session
	o.Take(live.Query{})
	time.Sleep(100 * time.Millisecond)
	state := o.Take(live.Query{About: live.AboutSites})

	fmt.Println(state.Totals.Live, "goroutines,", state.Health.Lost, "events lost")
	for _, site := range state.Sites {
		if site.Growth.Known && site.Growth.PerMinute > 100 {
			log.Print(site.Origin.Start.Func, " looks leaked")
		}
		if site.Live > 1 {
			fmt.Println(site.Live, "of", path.Base(site.Origin.Start.Func))
		}
	}
	log.Print("p99 of scheduler latency: ", state.Latency.All().Quantile(0.99))
	// Output:
	// 5 goroutines, 0 events lost
	// 4 of loupe_test.serveCustomer
}

// This example keeps the newest events of a process in memory, and writes them to a file when there are too many goroutines.
func ExampleFlightRecorder() {
	shop := startShop()
	defer shop.close()
	s, err := loupe.Attach(context.Background(), loupe.PID(shop.pid()), loupe.Options{Procs: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	f, err := s.FlightRecorder(loupe.FlightOptions{MinAge: 30 * time.Second, When: loupe.Conditions{Goroutines: 4}})
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Record(s); err != nil { // returns when the condition holds
		log.Fatal(err)
	}
	found := f.Found()
	fmt.Println(found.What)
	flight, err := f.Take()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := flight.Write(io.Discard, loupe.FormatGo); err != nil { // a file for go tool trace
		log.Fatal(err)
	}
	// Output:
	// there are 5 goroutines, more than 4
}

// This example writes the heap profile that the runtime of a process keeps to a file for go tool pprof.
func ExampleProcess_HeapProfile() {
	shop := startShop()
	defer shop.close()
	p, err := loupe.OpenProcess(shop.pid(), loupe.ProcessOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	heap, err := p.HeapProfile()
	if err != nil {
		log.Fatal(err) // wraps ErrProfileOff if the program does not record a heap profile
	}
	for _, t := range heap.SampleType {
		fmt.Println(t.Type, t.Unit)
	}
	if err := heap.Write(io.Discard); err != nil {
		log.Fatal(err)
	}
	// Output:
	// alloc_objects count
	// alloc_space bytes
	// inuse_objects count
	// inuse_space bytes
}
