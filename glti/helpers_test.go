package glti

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder collects the calls of callbacks.
type recorder struct {
	mu      sync.Mutex
	records []Record
	calls   map[string][][]any // arguments of the callbacks of Register methods, by the event's name
	begin   int64              // from this time on, at most maxPerGoroutine are collected of each event of each goroutine
	counts  map[string]int
}

// maxPerGoroutine limits what is collected of some events, because the runtime's sweeper calls Gosched for nearly each span.
const maxPerGoroutine = 1000

var limited = map[string]bool{"GoSched": true, "GoStart": true, "GoStartLocal": true}

func (c *recorder) add(r Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begin == 0 || c.counted(fmt.Sprint("record ", r.Event), r.Event.String(), r.G, r.Time) {
		c.records = append(c.records, r)
	}
}

// counted reports whether one more of a kind is collected.
func (c *recorder) counted(kind, event string, g any, time int64) bool {
	if c.begin == 0 || time < c.begin || !limited[event] {
		return true
	}
	kind += fmt.Sprint(g)
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[kind]++
	return c.counts[kind] <= maxPerGoroutine
}

// limit begins to limit what is collected.
func (c *recorder) limit(begin int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin = begin
}

// frozen returns a recorder with what was collected until now.
func (c *recorder) frozen() *recorder {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &recorder{records: append([]Record(nil), c.records...), calls: map[string][][]any{}}
	for name, calls := range c.calls {
		f.calls[name] = append([][]any(nil), calls...)
	}
	return f
}

// of returns the records of an event that match.
func (c *recorder) of(ev Event, match func(Record) bool) (list []Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		if r.Event == ev && (match == nil || match(r)) {
			list = append(list, r)
		}
	}
	return list
}

// ofG returns the records of an event about a goroutine.
func (c *recorder) ofG(ev Event, g G) []Record {
	return c.of(ev, func(r Record) bool { return r.G == g })
}

// registerAll registers a callback by each of the 44 Register methods, and one by Handle for each event.
func (c *recorder) registerAll(t *testing.T, env *GLTIEnv) {
	t.Helper()
	c.calls = map[string][][]any{}
	methods := reflect.ValueOf(&env.Trace)
	n := 0
	for i := 0; i < methods.NumMethod(); i++ {
		name, ok := strings.CutPrefix(methods.Type().Method(i).Name, "RegisterTraceEv")
		if !ok {
			continue
		}
		n++
		method := methods.Method(i)
		callback := reflect.MakeFunc(method.Type().In(0), func(args []reflect.Value) []reflect.Value {
			values := make([]any, len(args))
			for i, arg := range args {
				values[i] = arg.Interface()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.counted("call "+name, name, values[len(values)-1], values[0].(int64)) {
				c.calls[name] = append(c.calls[name], values)
			}
			return nil
		})
		if err := method.Call([]reflect.Value{callback})[0].Interface(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if n != 44 {
		t.Errorf("%d Register methods, want 44", n)
	}
	for _, ev := range Events() {
		if _, err := env.Trace.Handle(ev, c.add); err != nil {
			t.Fatalf("Handle(%s): %v", ev, err)
		}
	}
}

// requireTracing ends the test, with success, if the events of this release are unavailable: then all methods say so.
func requireTracing(t *testing.T) {
	t.Helper()
	if traceable(runtime.Version()) == "" {
		return
	}
	env := NewEnv("untraceable")
	defer env.Close()
	for _, ev := range Events() {
		_, err := env.Trace.Handle(ev, func(Record) {})
		if available := capability(ev.method()).Available; available != events[ev].never || (err == nil) != available {
			t.Errorf("%s: available %v, error %v", ev, available, err)
		}
		if err != nil && !errors.Is(err, ErrNotBuilt) {
			t.Errorf("%s: %v", ev, err)
		}
	}
	t.Skip("the execution traces of this release cannot be read; all events are unavailable, as they must be")
}

// collectReports returns the reports until the test ends, instead of printing them.
func collectReports(t *testing.T) func() []Report {
	var mu sync.Mutex
	var reports []Report
	SetReportHandler(func(r Report) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, r)
	})
	t.Cleanup(func() { SetReportHandler(nil) })
	return func() []Report {
		mu.Lock()
		defer mu.Unlock()
		return append([]Report(nil), reports...)
	}
}

// failOnReport makes the test fail for each report.
func failOnReport(t *testing.T) {
	SetReportHandler(func(r Report) { t.Error(r) })
	t.Cleanup(func() { SetReportHandler(nil) })
}

// current returns the current goroutine.
func current() G { return impl.current() }

// waitState waits until a goroutine is in a state, as a traceback spells it.
func waitState(t *testing.T, g G, state string) {
	t.Helper()
	want := []byte(fmt.Sprintf("goroutine %d [%s", g.ID, state))
	buf := make([]byte, 1<<20)
	for {
		stacks := buf[:runtime.Stack(buf, true)]
		if bytes.Contains(stacks, want) {
			return
		}
		if !bytes.Contains(stacks, []byte(fmt.Sprintf("goroutine %d [", g.ID))) {
			t.Fatalf("goroutine %d has ended", g.ID)
		}
		time.Sleep(time.Millisecond)
	}
}

// started runs f in a goroutine and returns which.
func started(f func()) G {
	id := make(chan G, 1)
	go func() {
		id <- current()
		f()
	}()
	return <-id
}

// blocked runs f in a goroutine and waits until it is in a state.
func blocked(t *testing.T, state string, f func()) G {
	t.Helper()
	g := started(f)
	waitState(t, g, state)
	return g
}

// ended waits until a goroutine has ended.
func ended(g G) {
	buf := make([]byte, 1<<20)
	for bytes.Contains(buf[:runtime.Stack(buf, true)], []byte(fmt.Sprintf("goroutine %d [", g.ID))) {
		time.Sleep(time.Millisecond)
	}
}

// oneProc lets only one processor run until the function that it returns is called.
func oneProc() (restore func()) {
	old := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(old) }
}

// lockOnce waits for a mutex.
func lockOnce(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
