package instrumentation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	otelattribute "go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/instrumentation"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testport"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

type keyValue = otelattribute.KeyValue

func numGoroutine() int { return runtime.NumGoroutine() }

// nobody is a process ID that no process has.
const nobody = 1<<22 + 1

// TestPID observes a process with each engine until it ends.
func TestPID(t *testing.T) {
	path := webPath(t)
	for _, e := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
		t.Run(string(e), func(t *testing.T) {
			p := startWeb(t, path)
			w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithEngine(e)).run()
			p.get("/hello")
			p.get("/many?n=2")
			list := w.take(6)
			servedBy(t, list, p.PID(), "/hello", 3)
			servedBy(t, list, p.PID(), "/many", 1)
			if s := w.Stats(); s.Processes != (instrumentation.Processes{Observed: 1}) || s.Spans.Ended != 6 {
				t.Errorf("%+v", s)
			}
			for _, text := range []string{"found process", "go=" + "go" + testtarget.Latest(), "net/http.serverHandler.ServeHTTP", "observing process"} {
				if !w.log.has(text) {
					t.Errorf("the log does not contain %q", text)
				}
			}
			p.Stop()
			if err := <-w.done; err != nil {
				t.Error(err)
			}
			w.done <- nil
			if s := w.end(); s.Processes != (instrumentation.Processes{Ended: 1}) || s.Spans.Ended != 6 || s.Unsampled != 0 || s.Spans.Begun != 6 || s.Exported+s.Failed+s.Dropped != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestFunctions observes calls of a function, and a process that does not have it.
func TestFunctions(t *testing.T) {
	p := startWeb(t, webPath(t))
	w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithEngine(loupe.EngineUprobe), instrumentation.WithFunctions("net/http.(*ServeMux).ServeHTTP")).run()
	p.get("/hello")
	list := w.take(2)
	i := slices.IndexFunc(list, func(s *spans.Span) bool { return s.Name == "net/http.(*ServeMux).ServeHTTP" })
	if len(list) != 2 || i < 0 || list[i].Parent.SpanID() != list[1-i].Context.SpanID() {
		t.Errorf("%+v", list)
	}
	w.end()
	missing := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithFunctions("main.missing"))
	if err := missing.Load(t.Context()); !errors.Is(err, loupe.ErrSelection) {
		t.Errorf("%v", err)
	}
}

// TestAllocations observes what requests allocate.
func TestAllocations(t *testing.T) {
	p := startWeb(t, webPath(t))
	w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithAllocations()).run()
	const objects, size = 1000, 1024
	p.get(fmt.Sprintf("/allocate/started/%06d", objects))
	if s := w.take(1)[0]; s.Work == nil || s.Work.Allocated == nil || s.Work.Allocated.Objects < objects || s.Work.Allocated.Bytes < objects*size {
		t.Errorf("%+v", s.Work)
	}
	w.end()
}

// TestExec observes a process before and after it executes its program again.
func TestExec(t *testing.T) {
	testtarget.Whole(t, "programs that execute others")
	path := copyOf(t, webPath(t))
	byPID := func(p *web) instrumentation.Option { return instrumentation.WithPID(p.PID()) }
	byExe := func(p *web) instrumentation.Option { return instrumentation.WithExe(path) }
	for name, option := range map[string]func(*web) instrumentation.Option{"pid": byPID, "exe": byExe} {
		t.Run(name, func(t *testing.T) {
			p := startWeb(t, path)
			w := newWatch(t, option(p)).run()
			p.get("/hello")
			servedBy(t, w.take(1), p.PID(), "/hello", 1)
			p.Command("exec")
			p.locate()
			until(t, "the process is observed again", func() bool { return strings.Count(w.log.String(), "observing process") == 2 })
			p.get("/hello")
			servedBy(t, w.take(1), p.PID(), "/hello", 1)
			if s := w.end(); s.Processes != (instrumentation.Processes{Ended: 2}) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestExe observes the processes of an executable: those that run before Load, those that start later, and those of an executable
// that has replaced it.
func TestExe(t *testing.T) {
	path := copyOf(t, webPath(t))
	first, second := startWeb(t, path), startWeb(t, path)
	w := newWatch(t, instrumentation.WithExe(path), instrumentation.WithoutBreakdown()).run()
	observing := func(n int) {
		t.Helper()
		until(t, "processes are observed", func() bool { return w.Stats().Processes.Observed == n })
	}
	observing(2)
	first.get("/hello")
	second.get("/hello")
	list := w.take(2)
	servedBy(t, list, first.PID(), "/hello", 1)
	servedBy(t, list, second.PID(), "/hello", 1)

	second.Kill()
	observing(1)
	third := startWeb(t, path)
	observing(2)
	third.get("/status/200")
	if list := w.take(1); list[0].PID != int32(third.PID()) || list[0].Work.Own.Total() != 0 {
		t.Errorf("%+v", list[0])
	}

	copyFile(t, webPath(t), path+".new")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	fourth := startWeb(t, path)
	observing(3) // also those of the executable that was removed
	first.get("/hello")
	fourth.get("/hello")
	list = w.take(2)
	servedBy(t, list, first.PID(), "/hello", 1)
	servedBy(t, list, fourth.PID(), "/hello", 1)
	if s := w.end(); s.Processes != (instrumentation.Processes{Ended: 4}) || s.Spans.Ended != 5 {
		t.Errorf("%+v", s)
	}
}

// TestExeLater waits for an executable that is not running, and does not exist.
func TestExeLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "service")
	w := newWatch(t, instrumentation.WithExe(path), instrumentation.WithPID(nobody)).run()
	if !w.log.has("waiting for a process that runs the executable") {
		t.Error("the log does not say that it waits")
	}
	copyFile(t, webPath(t), path)
	begin := time.Now()
	p := startWeb(t, path)
	until(t, "the process is observed", func() bool { return w.Stats().Processes.Observed == 1 })
	t.Logf("observed after %v", time.Since(begin))
	p.get("/hello")
	servedBy(t, w.take(1), p.PID(), "/hello", 1)
	if s := w.end(); s.Processes != (instrumentation.Processes{Ended: 1, Failed: 1}) || s.Spans.Ended != 1 {
		t.Errorf("%+v", s)
	}
}

// copyOf returns the path of a copy of an executable, which nothing else runs.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), filepath.Base(path))
	copyFile(t, path, copied)
	return copied
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestUnobservable selects processes that cannot be observed.
func TestUnobservable(t *testing.T) {
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	sleep := testcmd.Command(t, copyOf(t, path), "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	tiny := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	for _, c := range []struct {
		name string
		pids []int
		want []error
	}{
		{"no process", []int{nobody}, []error{loupe.ErrNoProcess}},
		{"not Go", []int{sleep.Process.Pid}, []error{loupe.ErrNotGo}},
		{"no library", []int{tiny.PID()}, []error{loupe.ErrUnsupported}},
		{"several", []int{nobody, sleep.Process.Pid}, []error{loupe.ErrNoProcess, loupe.ErrNotGo}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWatch(t, instrumentation.WithPID(c.pids...))
			err := w.Load(t.Context())
			for _, want := range c.want {
				if !errors.Is(err, want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %v", err, want)
				}
			}
			if err := w.Run(t.Context()); err == nil {
				t.Error("Run without processes: no error")
			}
			if s := w.Stats(); s.Processes.Failed != uint64(len(c.pids)) {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("besides others", func(t *testing.T) {
		p := startWeb(t, webPath(t))
		w := newWatch(t, instrumentation.WithPID(p.PID(), nobody, p.PID()), instrumentation.WithExe(sleep.Path)).run()
		p.get("/hello")
		w.take(1)
		time.Sleep(600 * time.Millisecond) // sleep is found again, and not reported
		if n := strings.Count(w.log.String(), "cannot be observed"); n != 2 {
			t.Errorf("%d reports, want 2", n)
		}
		if s := w.end(); s.Processes != (instrumentation.Processes{Ended: 1, Failed: 2}) {
			t.Errorf("%+v", s)
		}
	})
}

// TestSampler exports no span that is not sampled, and passes all to the handler.
func TestSampler(t *testing.T) {
	receiver := testcollector.Receive(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+receiver.HTTP)
	p := startWeb(t, webPath(t))
	w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithEnv(), instrumentation.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample()))).run()
	p.get("/hello")
	p.get("/many?n=2", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	for _, s := range w.take(6) {
		if s.Context.IsSampled() != s.Parent.IsValid() {
			t.Errorf("%+v", s)
		}
	}
	// The two requests that /many sends have no headers.
	if s := w.end(); s.Spans.Ended != 6 || s.Unsampled != 3 || s.Exported != 3 || s.Queued+int(s.Failed+s.Dropped) != 0 || len(receiver.Spans()) != 3 {
		t.Errorf("%+v", s)
	}
}

// TestExport exports the spans of two processes.
func TestExport(t *testing.T) {
	receiver := testcollector.Receive(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+receiver.HTTP)
	t.Setenv("OTEL_SERVICE_NAME", "other")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	first, second := startWeb(t, webPath(t)), startWeb(t, webPath(t))
	t.Setenv("OTEL_GO_AUTO_TARGET_PID", fmt.Sprintf("%d, %d", first.PID(), second.PID()))
	w := newWatch(t, instrumentation.WithEnv(), instrumentation.WithServiceName("orders")).run()
	first.get("/hello")
	second.get("/many?n=1")
	w.take(4)
	first.Stop()
	until(t, "the metrics of the process that has ended", func() bool { return len(receiver.Metrics()) > 0 })
	if s := w.end(); s.Exported != 4 || s.Queued+int(s.Failed+s.Dropped) != 0 {
		t.Errorf("%+v", s)
	}
	pids := map[string]int{}
	for _, s := range testcollector.WaitFor(t, 4, receiver.Spans) {
		r := s.Resource
		pids[r["process.pid"]]++
		if r["service.name"] != "orders" || r["deployment.environment.name"] != "test" || r["process.runtime.version"] == "" || r["process.executable.path"] != webPath(t) {
			t.Errorf("resource %v", r)
		}
		if s.Scope != "github.com/loupe-go/loupe/spans/net/http" {
			t.Errorf("scope %s", s.Scope)
		}
	}
	if pids[fmt.Sprint(first.PID())] != 1 || pids[fmt.Sprint(second.PID())] != 3 || len(receiver.Metrics()) != 2 {
		t.Errorf("spans of processes %v, metrics %d times", pids, len(receiver.Metrics()))
	}
}

// TestExportDown has no back end.
func TestExportDown(t *testing.T) {
	const timeout = time.Second
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+testport.Address(t))
	p := startWeb(t, webPath(t))
	w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithEnv(), instrumentation.CloseWithin(timeout)).run()
	p.get("/hello")
	w.take(1)
	begin := time.Now()
	err := w.Close()
	if took := time.Since(begin); err == nil || strings.Contains(err.Error(), "\n") || took > timeout+3*time.Second {
		t.Errorf("Close returned %v after %v", err, took)
	}
	if s := w.Stats(); s.Spans.Ended != 1 || s.Exported != 0 || s.Failed+s.Dropped != 1 || s.Queued != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDisabled observes nothing.
func TestDisabled(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	p := startWeb(t, webPath(t))
	i, err := instrumentation.New(t.Context(), instrumentation.WithEnv(), instrumentation.WithPID(p.PID()), instrumentation.WithLogger((&logged{}).logger()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := errors.Join(i.Load(ctx), i.Run(ctx), i.Close()); err != nil || ctx.Err() == nil {
		t.Errorf("%v; the context is done: %v", err, ctx.Err())
	}
	if s := i.Stats(); s != (instrumentation.Stats{}) {
		t.Errorf("%+v", s)
	}
}

// TestClose closes at many moments. Nothing is left.
func TestClose(t *testing.T) {
	testtarget.Whole(t, "closing at many moments")
	path := copyOf(t, webPath(t))
	p := startWeb(t, path)
	if w := newWatch(t, instrumentation.WithPID(p.PID())).run(); w.end().Processes.Ended != 1 { // whatever remains for ever
		t.Error("not observed")
	}
	p.client.CloseIdleConnections()
	goroutines, files := resources(t)
	const moments = 8
	for n := range moments {
		w := newWatch(t, instrumentation.WithPID(p.PID()), instrumentation.WithExe(path))
		var all sync.WaitGroup
		all.Go(func() {
			if err := w.Load(context.Background()); err != nil && !errors.Is(err, instrumentation.ErrClosed) {
				t.Error(err)
			}
			if err := w.Run(context.Background()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Duration(n*n) * 15 * time.Millisecond)
		for range 3 {
			all.Go(func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := w.Load(t.Context()); !errors.Is(err, instrumentation.ErrClosed) {
			t.Errorf("Load after Close: %v", err)
		}
		if err := errors.Join(w.Run(t.Context()), w.Close()); err != nil {
			t.Errorf("after Close: %v", err)
		}
		s := w.Stats()
		if s.Processes.Observed+int(s.Processes.Failed) != 0 {
			t.Errorf("%+v", s)
		}
	}
	var g, f int
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if g, f = resources(t); g <= goroutines && f <= files {
			return
		}
	}
	var text strings.Builder
	pprof.Lookup("goroutine").WriteTo(&text, 1)
	t.Errorf("%d goroutines, %d files; before %d, %d\n%s", g, f, goroutines, files, &text)
}

// TestContexts ends Load and Run by their contexts.
func TestContexts(t *testing.T) {
	p := startWeb(t, webPath(t))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWatch(t, instrumentation.WithPID(p.PID()))
	if err := w.Load(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Load: %v", err)
	}
	w = newWatch(t, instrumentation.WithPID(p.PID()))
	if err := w.Run(t.Context()); err == nil {
		t.Error("Run before Load: no error")
	}
	until, stop := context.WithCancel(t.Context())
	if err := w.Load(until); err != nil {
		t.Fatal(err)
	}
	stop() // does not end the observation
	p.get("/hello")
	ctx, end := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer end()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	w.take(1)
	if s := w.Stats(); s.Processes != (instrumentation.Processes{Ended: 1}) {
		t.Errorf("%+v", s)
	}
	if w.Load(t.Context()) == nil {
		t.Error("Load once more: no error")
	}
}
