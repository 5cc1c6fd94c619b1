package glti

import (
	"testing"
)

// BenchmarkDeliver measures what the package adds to an event, without callbacks and with some.
func BenchmarkDeliver(b *testing.B) {
	env := NewEnv("bench")
	defer env.Close()
	r := Record{Event: EvGoSched, Time: 1, G: G{Addr: 2, ID: 3}}
	calls := 0
	for _, name := range []string{"none", "one", "two"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i++ {
				deliver(r)
			}
		})
		defer testHandler(env, EvGoSched, func(Record) { calls++ }).Unregister()
	}
	if calls == 0 {
		b.Error("no calls")
	}
}

// BenchmarkRegistered measures the callback of a Register method, which gets the goroutine in an interface.
func BenchmarkRegistered(b *testing.B) {
	env := NewEnv("bench")
	defer env.Close()
	calls := 0
	if err := env.Trace.RegisterTraceEvTimerGoroutine(func(int64, interface{}) { calls++ }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		deliver(Record{Event: EvTimerGoroutine, Time: 1, G: G{Addr: 2, ID: uint64(i)}})
	}
}

// BenchmarkConvert measures the conversion of a trace, in events.
func BenchmarkConvert(b *testing.B) {
	data := smallTrace()
	records := 0
	for i := 0; i < b.N; i++ {
		model := newTraceModel(func(Record) { records++ })
		s := &splitter{done: func(g *generation) { model.convert(g, func(Record) {}) }}
		s.Write(data)
		s.finish()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/event")
}

// BenchmarkGetG measures how long it takes to know the current goroutine.
func BenchmarkGetG(b *testing.B) {
	for i := 0; i < b.N; i++ {
		current()
	}
}
