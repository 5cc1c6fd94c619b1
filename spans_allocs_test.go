package loupe_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// What net/http allocates for a request, in addition to what its handler does, may differ by this between requests: buffers, and timers.
const (
	allocBytes   = 16 << 10
	allocObjects = 64
	allocSize    = 1024 // of each object that a request is told to allocate
)

// allocHow are the goroutines in which a request can allocate.
var allocHow = []string{"own", "started", "waiting"}

// startAllocs observes what requests of program web allocate. There are no garbage collections.
func startAllocs(t *testing.T, spec testtarget.Spec) *web {
	t.Helper()
	cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
	cmd.Env = append(os.Environ(), "GOGC=off")
	return observeWeb(t, testtarget.StartCmd(t, cmd), loupe.Options{Spans: loupe.SpanOptions{Allocs: true}})
}

// allocate sends a request that allocates n objects. It returns what the program has measured.
func (w *web) allocate(how string, n int) (bytes, objects int) {
	w.t.Helper()
	status, body := w.send("GET", fmt.Sprintf("http://%s/allocate/%s/%06d", w.plain, how, n), "")
	if _, err := fmt.Sscanf(body, "%d %d", &bytes, &objects); status != 200 || err != nil {
		w.t.Errorf("status %d, %q", status, body)
	}
	return bytes, objects
}

// allocated returns what the span of a request has.
func allocated(t *testing.T, s *spans.Span) (bytes, objects int) {
	t.Helper()
	if s.Work == nil || s.Work.Allocated == nil || s.Work.Uncertain {
		t.Fatalf("%+v: %v", s.Work, describe([]*spans.Span{s}))
	}
	return int(s.Work.Allocated.Bytes), int(s.Work.Allocated.Objects)
}

// near reports whether a number differs from another by at most so much.
func near(got, want, most int) bool { return got-want <= most && want-got <= most }

// TestSpansAllocs compares what requests allocate with what the program measures, one request at a time.
func TestSpansAllocs(t *testing.T) {
	for _, spec := range testtarget.Ends(t, webSpecs(t)) {
		t.Run(spec.String(), func(t *testing.T) {
			w := startAllocs(t, spec)
			exact, compared := 0, 0
			for _, how := range allocHow {
				rest, restObjects := 1<<30, 1<<30 // of the first requests, after which the program has what it reuses
				for i, n := range []int{0, 0, 0, 4, 400, 8000, 0} {
					truth, truthObjects := w.allocate(how, n)
					s := w.take(1)[0]
					bytes, objects := allocated(t, s)
					if i <= 2 {
						rest, restObjects = min(rest, bytes-truth), min(restObjects, objects-truthObjects)
						continue
					}
					if truth < n*allocSize || !near(bytes-truth, rest, allocBytes) || !near(objects-truthObjects, restObjects, allocObjects) {
						t.Errorf("%s, %d objects: the span has %d bytes in %d objects; the program %d in %d, and %d in %d for what is around that",
							how, n, bytes, objects, truth, truthObjects, rest, restObjects)
					}
					compared++
					if near(bytes-truth, rest, 256) && near(objects-truthObjects, restObjects, 8) {
						exact++
					}
					want := map[string]string{"loupe.go.allocated": strconv.Itoa(bytes), "loupe.go.allocations": strconv.Itoa(objects)}
					for _, kv := range s.AllAttributes() {
						if text, ok := want[string(kv.Key)]; ok && kv.Value.String() != text {
							t.Errorf("attribute %s is %s, want %s", kv.Key, kv.Value.String(), text)
						}
						delete(want, string(kv.Key))
					}
					if len(want) > 0 {
						t.Errorf("no attributes %v", want)
					}
				}
				t.Logf("%s: %d bytes in %d objects around what the handler allocates", how, rest, restObjects)
			}
			t.Logf("%d of %d requests are exact", exact, compared)
			if exact < compared/3 {
				t.Errorf("%d of %d requests are exact", exact, compared)
			}
		})
	}
}

// TestSpansAllocsMany has many requests allocate at the same time: each has what it has allocated itself.
func TestSpansAllocsMany(t *testing.T) {
	const senders, each = 50, 6
	for _, spec := range lastWeb(t) {
		w := startAllocs(t, spec)
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				for j := range each {
					w.allocate(allocHow[j%len(allocHow)], 40*i)
				}
			})
		}
		all.Wait()
		for _, s := range w.take(senders * each) {
			words := strings.Split(attributes(s)["url.path"], "/")
			n, err := strconv.Atoi(words[3])
			if err != nil {
				t.Fatal(err)
			}
			bytes, objects := allocated(t, s)
			if bytes < n*allocSize || bytes > n*allocSize+allocBytes || objects < n || objects > n+allocObjects {
				t.Errorf("%v: %d bytes in %d objects", words, bytes, objects)
			}
		}
	}
}

// TestRecordAllocs records requests that allocate: their tasks have what they have allocated, and those of requests that are sent have
// nothing. All goroutines are observed.
func TestRecordAllocs(t *testing.T) {
	const senders, each = 20, 6
	for _, spec := range lastWeb(t) {
		cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
		cmd.Env = append(os.Environ(), "GOGC=off")
		var file bytes.Buffer
		list := observeTasksOf(t, testtarget.StartCmd(t, cmd), loupe.Options{Spans: loupe.SpanOptions{Allocs: true}}, func(w *web) {
			var all sync.WaitGroup
			for i := range senders {
				all.Go(func() {
					for j := range each {
						w.allocate(allocHow[j%len(allocHow)], 40*i)
					}
					w.send("GET", "http://"+w.plain+"/many?n=1", "")
				})
			}
			all.Wait()
		}, func(s *loupe.Session) error {
			_, err := s.Record(&file, loupe.RecordOptions{})
			return err
		})
		tasks := readTasks(t, file.Bytes())
		if want := senders * (each + 3); len(list) != want || len(tasks) != want {
			t.Errorf("%d spans and %d tasks, want %d", len(list), len(tasks), want)
		}
		for _, s := range list {
			task, want := tasks[s.Context.SpanID().String()], ""
			if s.Kind == trace.SpanKindServer {
				bytes, objects := allocated(t, s)
				want = english.Count(bytes, "byte") + " in " + english.Count(objects, "object")
				if words := strings.Split(attributes(s)["url.path"], "/"); words[1] == "allocate" {
					n, err := strconv.Atoi(words[3])
					if err != nil || bytes < n*allocSize || bytes > n*allocSize+allocBytes || objects < n || objects > n+allocObjects {
						t.Errorf("%v: %d bytes in %d objects, %v", words, bytes, objects, err)
					}
				}
			}
			if task == nil || task.logs["allocated"] != want {
				t.Errorf("task %+v, want %q: %v", task, want, describe([]*spans.Span{s}))
			}
		}
	}
}

// TestSpansAllocsEnds has requests end in other ways.
func TestSpansAllocsEnds(t *testing.T) {
	for _, spec := range lastWeb(t) {
		w := startAllocs(t, spec)
		w.send("POST", fmt.Sprintf("http://%s/allocate/panic/%06d", w.plain, 1000), "")
		s := w.take(1)[0]
		if bytes, objects := allocated(t, s); s.Ending != spans.Panicked || bytes < 1000*allocSize || objects < 1000 || bytes > 1100*allocSize {
			t.Errorf("%v: %d bytes in %d objects", describe([]*spans.Span{s}), bytes, objects)
		}
		w.send("GET", "http://"+w.plain+"/many?n=3", "")
		for _, s := range w.take(7) {
			if counted := s.Work != nil && s.Work.Allocated != nil; counted != (s.Kind == trace.SpanKindServer) {
				t.Errorf("allocations are counted: %v; %v", counted, describe([]*spans.Span{s}))
			}
		}
	}
}

// TestSpansAllocsOff has no allocations unless they are to be counted.
func TestSpansAllocsOff(t *testing.T) {
	for _, spec := range lastWeb(t) {
		w := startWeb(t, spec)
		w.allocate("own", 10)
		if s := w.take(1)[0]; s.Work.Allocated != nil {
			t.Errorf("%+v", s.Work.Allocated)
		}
	}
	for want, opt := range map[string]loupe.Options{
		"Spans.Allocs and Allocs exclude": {Allocs: loupe.AllocOptions{By: loupe.AllocsByPlace}, Spans: loupe.SpanOptions{Allocs: true}},
	} {
		if _, err := loupe.Attach(t.Context(), loupe.PID(1), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
