package glti

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// testHandler registers a callback without enabling the event, so that tests can deliver events themselves.
func testHandler(env *GLTIEnv, ev Event, call func(Record)) *Registration {
	h := &handler{callback: callback{agent: env.Trace.agent, method: ev.method()}, event: ev, call: call}
	registered.mu.Lock()
	registered.set(ev, append(registered.get(ev)[:len(registered.get(ev)):len(registered.get(ev))], h))
	registered.mu.Unlock()
	return &Registration{remove: func() {
		registered.mu.Lock()
		defer registered.mu.Unlock()
		h.removed.Store(true)
		var kept []*handler
		for _, other := range registered.get(ev) {
			if other != h {
				kept = append(kept, other)
			}
		}
		registered.set(ev, kept)
	}}
}

// unregisterAll is for environments of testHandler, whose events were not enabled.
func unregisterAll(list ...*Registration) {
	for _, r := range list {
		r.Unregister()
	}
}

func TestAgents(t *testing.T) {
	failOnReport(t)
	one, two := NewEnv("one"), NewEnv("two")
	defer one.Close()
	defer two.Close()
	var got []string
	a := testHandler(one, EvGoSched, func(r Record) { got = append(got, fmt.Sprint("one ", r.Time)) })
	b := testHandler(two, EvGoSched, func(r Record) { got = append(got, fmt.Sprint("two ", r.Time)) })
	c := testHandler(one, EvGoSched, func(r Record) { got = append(got, fmt.Sprint("again ", r.Time)) })
	deliver(Record{Event: EvGoSched, Time: 1})
	a.Unregister()
	a.Unregister()
	deliver(Record{Event: EvGoSched, Time: 2})
	unregisterAll(b, c)
	deliver(Record{Event: EvGoSched, Time: 3})
	if want := "[one 1 two 1 again 1 two 2 again 2]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestUnregisterInCallback checks that a callback can unregister itself and others.
func TestUnregisterInCallback(t *testing.T) {
	env := NewEnv("self")
	defer env.Close()
	calls := 0
	var self, other *Registration
	self = testHandler(env, EvGoSched, func(Record) {
		calls++
		self.Unregister()
		other.Unregister()
	})
	other = testHandler(env, EvGoSched, func(Record) { t.Error("the removed callback was called") })
	deliver(Record{Event: EvGoSched})
	deliver(Record{Event: EvGoSched})
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

func TestCallbackPanics(t *testing.T) {
	reports := collectReports(t)
	env := NewEnv("panics")
	defer env.Close()
	good := 0
	list := []*Registration{
		testHandler(env, EvGoSched, func(Record) { panic("first\nline") }),
		testHandler(env, EvGoSched, func(Record) { good++ }),
	}
	defer unregisterAll(list...)
	for i := 0; i < 3; i++ {
		deliver(Record{Event: EvGoSched})
	}
	if good != 3 {
		t.Errorf("the other callback was called %d times, want 3", good)
	}
	all := reports()
	if len(all) != 1 {
		t.Fatalf("%d reports, want 1: %v", len(all), all)
	}
	var err *PanicError
	if !errors.As(all[0].Err, &err) || err.Value != "first\nline" || !strings.Contains(string(err.Stack), "TestCallbackPanics") {
		t.Errorf("error %#v", all[0].Err)
	}
	if want := `glti: agent panics: RegisterTraceEvGoSched: callback disabled: it panicked: "first\nline"`; all[0].String() != want {
		t.Errorf("report %q, want %q", all[0], want)
	}
}

// TestCallbackExits checks a callback that ends its goroutine.
func TestCallbackExits(t *testing.T) {
	reports := collectReports(t)
	env := NewEnv("exits")
	defer env.Close()
	defer testHandler(env, EvGoSched, func(Record) { runtime.Goexit() }).Unregister()
	for i := 0; i < 2; i++ {
		done := make(chan bool)
		go func() {
			defer close(done)
			deliver(Record{Event: EvGoSched})
		}()
		<-done
	}
	if all := reports(); len(all) != 1 || !strings.Contains(all[0].String(), "runtime.Goexit") {
		t.Errorf("reports %v", all)
	}
}

// TestReportHandlerPanics checks that a report handler cannot end the program.
func TestReportHandlerPanics(t *testing.T) {
	defer SetReportHandler(nil)
	SetReportHandler(func(Report) { panic("handler") })
	report(Report{Err: errNilCallback}) // prints one line
}

// TestConcurrentUse registers and removes callbacks of several agents while events are delivered.
func TestConcurrentUse(t *testing.T) {
	failOnReport(t)
	var calls atomic.Int64
	var stop atomic.Bool
	var deliverers, agents sync.WaitGroup
	for i := 0; i < 2; i++ {
		deliverers.Add(1)
		go func() {
			defer deliverers.Done()
			for !stop.Load() {
				deliver(Record{Event: EvTimerGoroutine})
				runtime.Gosched()
			}
		}()
	}
	for i := 0; i < 6; i++ {
		agents.Add(1)
		go func() {
			defer agents.Done()
			for n := 0; n < 100; n++ {
				env := NewEnv("concurrent")
				var called atomic.Bool
				cb := func(int64, interface{}) { calls.Add(1); called.Store(true) }
				if err := env.Trace.RegisterTraceEvTimerGoroutine(cb); err != nil {
					t.Error(err)
				}
				r, err := env.Trace.Handle(EvTimerGoroutine, func(Record) { calls.Add(1) })
				if err != nil {
					t.Error(err)
				}
				for !called.Load() {
					runtime.Gosched()
				}
				r.Unregister()
				if n%2 == 0 {
					env.Trace.Unregister(EvTimerGoroutine)
				}
				env.Close()
				if err := env.Trace.RegisterTraceEvTimerGoroutine(cb); !errors.Is(err, ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			}
		}()
	}
	agents.Wait()
	stop.Store(true)
	deliverers.Wait()
	if calls.Load() == 0 || len(registered.get(EvTimerGoroutine)) != 0 {
		t.Errorf("%d calls; %d callbacks are left", calls.Load(), len(registered.get(EvTimerGoroutine)))
	}
}

// TestConcurrentTracing does the same with an event that runs a trace.
func TestConcurrentTracing(t *testing.T) {
	requireTracing(t)
	failOnReport(t)
	var agents sync.WaitGroup
	for i := 0; i < 4; i++ {
		agents.Add(1)
		go func() {
			defer agents.Done()
			for n := 0; n < 5; n++ {
				env := NewEnv("concurrent")
				var calls atomic.Int64
				if err := env.Trace.RegisterTraceEvGoCreate(func(int64, interface{}) { calls.Add(1) }); err != nil {
					t.Error(err)
				}
				go func() {}()
				if n == 0 {
					env.Trace.Flush()
				}
				env.Close()
			}
		}()
	}
	agents.Wait()
}

func TestErrors(t *testing.T) {
	env := NewEnv("errors")
	if err := env.Trace.RegisterTraceEvGoEnd(nil); !errors.Is(err, errNilCallback) {
		t.Errorf("nil callback: %v", err)
	}
	if _, err := env.Trace.Handle(EvGoEnd, nil); !errors.Is(err, errNilCallback) {
		t.Errorf("nil callback: %v", err)
	}
	for _, ev := range []Event{0, firstEvent - 1, endEvent, 255} {
		if _, err := env.Trace.Handle(ev, func(Record) {}); err == nil {
			t.Errorf("%s: no error", ev)
		}
		if _, err := env.Trace.HandleRaw(ev, func(*RawRecord) {}); err == nil {
			t.Errorf("raw %s: no error", ev)
		}
		if _, err := env.Trace.CountEvent(ev); err == nil {
			t.Errorf("counter of %s: no error", ev)
		}
	}
	var none GLTIEnv
	if err := none.Trace.RegisterTraceEvTimerGoroutine(func(int64, interface{}) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("environment without NewEnv: %v", err)
	}
	none.Close()
	env.Close()
	env.Close()
	if _, err := env.Trace.HandleRaw(EvGoStart, func(*RawRecord) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed environment: %v", err)
	}
	if err := env.Profiler.RegisterPprofGoroutineProfileHandler(1, func([]StackRecord) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed environment: %v", err)
	}
}

func TestMaximumOfEnvironments(t *testing.T) {
	var open []*GLTIEnv
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		for _, env := range open {
			env.Close()
		}
		NewEnv("free again").Close()
	}()
	for i := 0; i <= maxAgents; i++ {
		open = append(open, NewEnv("one of many"))
	}
}

func TestLinkedAgents(t *testing.T) {
	reports := collectReports(t)
	var got []string
	var envs []*GLTIEnv
	add := func(name string, init func(*GLTIEnv)) {
		RegisterAgent(Agent{
			Name:     name,
			Init:     init,
			Shutdown: func(code int) { got = append(got, fmt.Sprint("end ", name, " ", code)) },
		})
	}
	keep := func(env *GLTIEnv) {
		got = append(got, "init "+env.Trace.agent.name)
		envs = append(envs, env)
	}
	add("one", keep)
	add("bad", func(env *GLTIEnv) { envs = append(envs, env); panic("no") })
	InitGLTI()
	add("two", keep)
	InitGLTI()
	Shutdown(3)
	Shutdown(4)
	if want := "[init one init two end two 3 end bad 3 end one 3]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if len(reports()) != 1 || !envs[1].Trace.agent.isClosed() {
		t.Errorf("reports %v", reports())
	}
	for _, env := range envs {
		env.Close()
	}
}
