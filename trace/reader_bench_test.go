package trace

import (
	"bytes"
	"io"
	"os"
	rtrace "runtime/trace"
	"sync"
	"testing"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// benchTrace returns the trace in the file that the environment variable TRACE names, or else one that this program
// records of itself.
func benchTrace(b *testing.B) []byte {
	b.Helper()
	name := os.Getenv("TRACE")
	if name == "" {
		return recordSelf()
	}
	data, err := os.ReadFile(name)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// recordSelf records goroutines that wait for each other, now and then in a system call, for locks, and collect garbage.
var recordSelf = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	if err := rtrace.Start(&out); err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 20 {
		ping, pong := make(chan []byte), make(chan []byte)
		wg.Add(2)
		go func() {
			defer wg.Done()
			for v := range ping {
				pong <- append(v, 1)
			}
			close(pong)
		}()
		go func() {
			defer wg.Done()
			for i := range 20_000 {
				ping <- make([]byte, 100)
				<-pong
				if i%50 == 0 {
					os.Getppid()
					mu.Lock()
					os.Stat("/")
					mu.Unlock()
				}
			}
			close(ping)
		}()
	}
	wg.Wait()
	rtrace.Stop()
	return out.Bytes()
})

func BenchmarkReader(b *testing.B) {
	benchReader(b, func() func([]event.Event) { return func([]event.Event) {} })
}

// BenchmarkReaderSched is what a summary of a trace takes.
func BenchmarkReaderSched(b *testing.B) {
	benchReader(b, func() func([]event.Event) {
		return sched.New(sched.Options{Kinds: event.KindsDefault.Union(event.KindsSyscall)}).ApplyBatch
	})
}

func benchReader(b *testing.B, user func() func([]event.Event)) {
	data := benchTrace(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		events = 0
		use := user()
		for part, err := range r.Batches() {
			if err != nil {
				b.Fatal(err)
			}
			events += len(part)
			use(part)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
}

func BenchmarkValidate(b *testing.B) {
	data := benchTrace(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	events := int64(0)
	for b.Loop() {
		report, err := Validate(bytes.NewReader(data), ValidateOptions{})
		if err != nil || !report.Valid() {
			b.Fatal(report, err)
		}
		events = report.Events
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
}

// BenchmarkToolchainReader is the reader of the Go toolchain, to compare with.
func BenchmarkToolchainReader(b *testing.B) {
	data := benchTrace(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		r, err := trace.NewReader(bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		for events = 0; ; events++ {
			if _, err := r.ReadEvent(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
}
