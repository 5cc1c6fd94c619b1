package loupe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/spans"
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

// This example prints the requests that a program serves and sends.
func ExampleSpanOptions() {
	s, err := loupe.Attach(context.Background(), loupe.Command(webShop()), loupe.Options{Spans: loupe.SpanOptions{
		Handle: func(s *spans.Span) {
			fmt.Println(s.Kind, s.Name)
			if s.Work != nil {
				log.Print("of ", time.Duration(s.End-s.Start), " it waited for channels ", s.Work.Own[spans.Chan])
			}
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for range s.Events() { // Handle is called meanwhile
	}
	if counts, err := s.SpanCounts(); err != nil || counts.Notes.Lost > 0 {
		log.Print(counts.Notes.Lost, " reports of begins and ends were lost, ", err)
	}
	// Unordered output:
	// server GET /items/{id}
	// client GET
}

// webShop returns the command of a program that serves a request, which it sends to itself.
func webShop() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOUPE_EXAMPLE=web")
	return cmd
}

func runWebShop() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "item ", r.PathValue("id")) })
	server := httptest.NewServer(mux)
	defer server.Close()
	resp, err := http.Get(server.URL + "/items/7")
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
}
