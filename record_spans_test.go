package loupe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// recordWeb records program web with its spans while requests are sent.
func recordWeb(t *testing.T, spec testtarget.Spec, kinds event.Kinds, opt loupe.RecordOptions, requests func(w *web)) ([]byte, []*spans.Span) {
	t.Helper()
	var file bytes.Buffer
	list := observeTasks(t, spec, kinds, requests, func(s *loupe.Session) error {
		_, err := s.Record(&file, opt)
		return err
	})
	return file.Bytes(), list
}

// observeTasks observes program web with its spans while requests are sent. record reads the events.
func observeTasks(t *testing.T, spec testtarget.Spec, kinds event.Kinds, requests func(w *web), record func(*loupe.Session) error) []*spans.Span {
	t.Helper()
	return observeTasksOf(t, testtarget.Start(t, testtarget.Build(t, spec)), loupe.Options{Kinds: kinds}, requests, record)
}

// observeTasksOf does the same with a process of the program and other options.
func observeTasksOf(t *testing.T, target *testtarget.Process, opt loupe.Options, requests func(w *web), record func(*loupe.Session) error) []*spans.Span {
	t.Helper()
	w := &web{t: t, target: target, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	t.Cleanup(w.target.Stop)
	t.Cleanup(w.client.CloseIdleConnections)
	w.plain = strings.Fields(w.target.Command("address"))[1]
	opt.Procs, opt.Spans.Tasks = true, true
	opt.Spans.Handle = func(s *spans.Span) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, s)
	}
	s := attach(t, w.target.PID(), opt)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = record(s)
	}()
	requests(w)
	w.await(func() bool {
		c, err := s.SpanCounts()
		return err == nil && c.Open == 0 && len(w.got) > 0
	})
	s.Detach()
	<-done
	counts, countErr := s.SpanCounts()
	if err = errors.Join(err, countErr, s.Err()); err != nil || counts.Notes.Lost > 0 || s.Stats().Lost > 0 {
		t.Fatalf("%v; %+v; %d events lost", err, counts, s.Stats().Lost)
	}
	return w.got
}

// sampled are the kinds that loupe record records. If a reader is slow, samples of the memory come before earlier events.
var sampled = event.KindsDefault.Union(event.KindsMemory)

// tasksPaths are the paths of the requests, and the number of spans that each makes.
var tasksPaths = map[string]int{"/hello": 1, "/items/7": 1, "/status/503": 1, "/many?n=3": 7, "/fan?n=4": 9, "/http2?n=2": 5, "/wait?for=lock": 1, "/panic": 1}

// sendTasks sends requests from some goroutines at once. It returns the number of spans.
func (w *web) sendTasks(senders int) (n int) {
	paths := slices.Sorted(maps.Keys(tasksPaths))
	var all sync.WaitGroup
	for range senders {
		for _, path := range paths {
			n += tasksPaths[path]
		}
		all.Go(func() {
			for _, path := range paths {
				method := "GET"
				if path == "/panic" {
					method = "POST" // net/http does not repeat it
				}
				w.send(method, "http://"+w.plain+path, "")
			}
		})
	}
	all.Wait()
	return n
}

// A recordedTask is a task of a trace.
type recordedTask struct {
	id, parent xtrace.TaskID
	name       string
	begin, end xtrace.Time
	logs       map[string]string
	regions    []recordedRegion
}

type recordedRegion struct {
	g          uint64
	name       string
	begin, end xtrace.Time
}

// readTasks reads the tasks of a trace, by the ID of the span. Package golang.org/x/exp/trace checks that regions are nested.
func readTasks(t *testing.T, data []byte) map[string]*recordedTask {
	t.Helper()
	r, err := xtrace.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	tasks := map[xtrace.TaskID]*recordedTask{}
	for {
		ev, err := r.ReadEvent()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind() {
		case xtrace.EventTaskBegin:
			task := ev.Task()
			if tasks[task.ID] != nil {
				t.Errorf("task %d begins twice", task.ID)
			}
			tasks[task.ID] = &recordedTask{id: task.ID, parent: task.Parent, name: task.Type, begin: ev.Time(), logs: map[string]string{}}
		case xtrace.EventTaskEnd:
			tasks[ev.Task().ID].end = ev.Time()
		case xtrace.EventRegionBegin:
			of := tasks[ev.Region().Task]
			of.regions = append(of.regions, recordedRegion{g: uint64(ev.Goroutine()), name: ev.Region().Type, begin: ev.Time()})
		case xtrace.EventRegionEnd:
			of := tasks[ev.Region().Task]
			of.regions[len(of.regions)-1].end = ev.Time()
		case xtrace.EventLog:
			if of := tasks[ev.Log().Task]; of != nil {
				of.logs[ev.Log().Category] = ev.Log().Message
			}
		}
	}
	bySpan := map[string]*recordedTask{}
	for _, task := range tasks {
		bySpan[task.logs["span_id"]] = task
	}
	if len(bySpan) != len(tasks) {
		t.Errorf("%d tasks have %d spans", len(tasks), len(bySpan))
	}
	return bySpan
}

// Times of a trace that are later than those of events, because times in a trace increase strictly.
const (
	tasksLate      = 50 * time.Microsecond
	tasksLateOneIn = 10
)

// TestRecordTasks records requests, and compares the tasks and regions of the trace with the spans.
func TestRecordTasks(t *testing.T) {
	const senders = 20
	for _, spec := range testtarget.Ends(t, webSpecs(t)) {
		t.Run(spec.String(), func(t *testing.T) {
			want := 0
			data, list := recordWeb(t, spec, event.KindsDefault, loupe.RecordOptions{}, func(w *web) { want = w.sendTasks(senders) })
			tasks := readTasks(t, data)
			if len(list) != want || len(tasks) != want {
				t.Errorf("%d spans and %d tasks, want %d", len(list), len(tasks), want)
			}
			late := 0
			for _, s := range list {
				task := tasks[s.Context.SpanID().String()]
				if task == nil {
					t.Errorf("no task of %v", describe([]*spans.Span{s}))
					continue
				}
				late += task.compare(t, s, tasks)
			}
			t.Logf("%d bytes, %d tasks, %d with later times", len(data), len(tasks), late)
			if late > want/tasksLateOneIn {
				t.Errorf("%d of %d tasks have times that differ by more than %v", late, want, tasksLate)
			}
		})
	}
}

// compare compares a task with its span. It returns 1 if the times of the task are later.
func (task *recordedTask) compare(t *testing.T, s *spans.Span, tasks map[string]*recordedTask) (late int) {
	t.Helper()
	text := describe([]*spans.Span{s})[0]
	status := attributes(s)["http.response.status_code"]
	switch {
	case s.Ending == spans.Panicked:
		status = "error: " + s.Message
	case status == "503":
		status = "error: 503"
	}
	if task.name != s.Name || task.logs["trace_id"] != s.Context.TraceID().String() || task.logs["status"] != status || task.logs["name"] != "" {
		t.Errorf("task %q, %v: %s", task.name, task.logs, text)
	}
	parent := xtrace.NoTask
	if p := tasks[s.Parent.SpanID().String()]; p != nil {
		parent = p.id
	} else if s.Parent.IsValid() {
		t.Errorf("no task of the parent of %s", text)
	}
	if task.parent != parent {
		t.Errorf("parent %d, want %d: %s", task.parent, parent, text)
	}
	within := func(got xtrace.Time, want int64) bool { return time.Duration(int64(got)-want).Abs() <= tasksLate }
	if task.end == 0 || task.end < task.begin {
		t.Errorf("from %d to %d: %s", task.begin, task.end, text)
	}
	if !within(task.begin, s.Start) || !within(task.end, s.End) {
		late = 1
	}
	if len(task.regions) == 0 {
		t.Errorf("no region: %s", text)
	}
	for _, r := range task.regions {
		if r.g != s.G || r.name != s.Name || r.begin < task.begin || r.end == 0 || s.Kind == trace.SpanKindServer && r.end > task.end {
			t.Errorf("region %+v, task from %d to %d: %s", r, task.begin, task.end, text)
		}
	}
	if s.Kind == trace.SpanKindServer && len(task.regions) != 1 {
		t.Errorf("%d regions: %s", len(task.regions), text)
	}
	return late
}

// TestFlightTasks keeps the events of requests in memory. A condition, which does not hold, does not wait for the names of tasks.
func TestFlightTasks(t *testing.T) {
	for _, spec := range lastWeb(t) {
		var file bytes.Buffer
		list := observeTasks(t, spec, sampled, func(w *web) { w.sendTasks(2) }, func(s *loupe.Session) error {
			flight, err := s.FlightRecorder(loupe.FlightOptions{MinAge: time.Hour, When: loupe.Conditions{Goroutines: 1 << 20}})
			if err != nil {
				return err
			}
			if err := flight.Record(s); err != nil {
				return err
			}
			kept, err := flight.Take()
			if err != nil {
				return err
			}
			_, err = kept.Write(&file, loupe.FormatGo)
			return err
		})
		tasks := readTasks(t, file.Bytes())
		for _, s := range list {
			if task := tasks[s.Context.SpanID().String()]; task == nil || task.name != s.Name {
				t.Errorf("task %+v of %v", task, describe([]*spans.Span{s}))
			}
		}
	}
}

// TestTasksEvents reads the events of tasks without recording them, and checks how they are counted.
func TestTasksEvents(t *testing.T) {
	for _, spec := range lastWeb(t) {
		got := map[event.Kind]uint64{}
		var stats event.Stats
		list := observeTasks(t, spec, sampled, func(w *web) { w.sendTasks(2) }, func(s *loupe.Session) error {
			for e := range s.Events() {
				got[e.Kind]++
			}
			stats = s.Stats()
			return nil
		})
		for _, kind := range []event.Kind{event.UserTaskBegin, event.UserTaskEnd, event.UserRegionBegin, event.UserRegionEnd} {
			if got[kind] != uint64(len(list)) {
				t.Errorf("%d times %v, want %d", got[kind], kind, len(list))
			}
		}
		for kind, n := range got {
			if c := stats.Kinds[kind]; kind != event.GoStatus && c.Received != n {
				t.Errorf("%d times %v, counted %+v", n, kind, c)
			}
		}
	}
}

// TestTasksOptions checks which options exclude each other.
func TestTasksOptions(t *testing.T) {
	for want, opt := range map[string]loupe.Options{
		"exclude each other":                    {Spans: loupe.SpanOptions{Tasks: true, Propagation: &loupe.Propagation{}}},
		"requires Kinds with GoStatus,GoCreate": {Kinds: event.KindsGC, Spans: loupe.SpanOptions{Tasks: true}},
	} {
		if _, err := loupe.Attach(t.Context(), loupe.PID(1), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRecordTasksTool has go tool trace read a recording with tasks to its end.
func TestRecordTasksTool(t *testing.T) {
	for _, spec := range lastWeb(t) {
		if !testtarget.RunsToolTrace(t, spec.Go) {
			continue
		}
		data, list := recordWeb(t, spec, sampled, loupe.RecordOptions{}, func(w *web) { w.sendTasks(2) })
		out := toolOutput(t, spec.Go, data)
		for text, want := range map[string]int{" TaskBegin ": len(list), " TaskEnd ": len(list), " RegionBegin ": len(list), " RegionEnd ": len(list), `Type="GET /items/{id}"`: 4 * 2} {
			if got := strings.Count(out, text); got != want {
				t.Errorf("%d times %q, want %d: %.3000s", got, text, want, out)
			}
		}
	}
}

// TestRecordTasksTimeline records requests for viewers of timelines: each is a slice on a track of tasks, and one below its goroutine.
func TestRecordTasksTimeline(t *testing.T) {
	for _, spec := range lastWeb(t) {
		data, list := recordWeb(t, spec, sampled, loupe.RecordOptions{Format: loupe.FormatChrome}, func(w *web) { w.sendTasks(2) })
		var doc struct {
			TraceEvents []struct {
				Name, Ph, Cat string
				Tid           uint64
			}
		}
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		got, want := map[string]int{}, map[string]int{}
		for _, e := range doc.TraceEvents {
			if e.Ph == "b" && (e.Cat == "task" || e.Cat == "region") {
				got[fmt.Sprint(e.Cat, " ", e.Name, " ", e.Tid)]++
			}
		}
		for _, s := range list {
			want[fmt.Sprint("task ", s.Name, " 0")]++
			want[fmt.Sprint("region ", s.Name, " ", s.G)]++
		}
		if !maps.Equal(got, want) {
			t.Errorf("slices %v, want %v", got, want)
		}
		data, list = recordWeb(t, spec, sampled, loupe.RecordOptions{Format: loupe.FormatPerfetto}, func(w *web) { w.sendTasks(2) })
		for _, s := range list {
			if !bytes.Contains(data, []byte(s.Name)) {
				t.Errorf("no %q in the trace for Perfetto", s.Name)
			}
		}
	}
}
