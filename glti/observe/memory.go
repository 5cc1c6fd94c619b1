package observe

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/loupe-go/loupe/glti"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

// metricsOf are the metrics of the fields of a wire.Memory. None of them stops the program.
func metricsOf(m *wire.Memory) map[string]*uint64 {
	return map[string]*uint64{
		"/memory/classes/heap/objects:bytes":          &m.Objects,
		"/gc/heap/live:bytes":                         &m.Live,
		"/gc/heap/goal:bytes":                         &m.Goal,
		"/memory/classes/heap/unused:bytes":           &m.Unused,
		"/memory/classes/heap/free:bytes":             &m.Free,
		"/memory/classes/heap/released:bytes":         &m.Released,
		"/memory/classes/heap/stacks:bytes":           &m.StacksInUse,
		"/memory/classes/os-stacks:bytes":             &m.StacksOS,
		"/memory/classes/metadata/mspan/inuse:bytes":  &m.MSpanInUse,
		"/memory/classes/metadata/mspan/free:bytes":   &m.MSpanFree,
		"/memory/classes/metadata/mcache/inuse:bytes": &m.MCacheInUse,
		"/memory/classes/metadata/mcache/free:bytes":  &m.MCacheFree,
		"/memory/classes/profiling/buckets:bytes":     &m.Buckets,
		"/memory/classes/metadata/other:bytes":        &m.Metadata,
		"/memory/classes/other:bytes":                 &m.Other,
		"/memory/classes/total:bytes":                 &m.Total,
		"/gc/heap/allocs:bytes":                       &m.AllocBytes,
		"/gc/heap/allocs:objects":                     &m.AllocObjects,
		"/gc/heap/frees:bytes":                        &m.FreeBytes,
		"/gc/heap/frees:objects":                      &m.FreeObjects,
		"/gc/heap/tiny/allocs:objects":                &m.TinyObjects,
		"/gc/heap/objects:objects":                    &m.HeapObjects,
		"/gc/cycles/total:gc-cycles":                  &m.Cycles,
		"/gc/cycles/forced:gc-cycles":                 &m.Forced,
		"/gc/gogc:percent":                            &m.GOGC,
		"/gc/gomemlimit:bytes":                        &m.Limit,
		"/cpu/classes/gc/mark/assist:cpu-seconds":     &m.CPUAssist,
		"/cpu/classes/gc/mark/dedicated:cpu-seconds":  &m.CPUDedicated,
		"/cpu/classes/gc/mark/idle:cpu-seconds":       &m.CPUIdleM,
		"/cpu/classes/gc/pause:cpu-seconds":           &m.CPUPause,
		"/cpu/classes/gc/total:cpu-seconds":           &m.CPUGC,
		"/cpu/classes/scavenge/total:cpu-seconds":     &m.CPUScavenge,
		"/cpu/classes/idle:cpu-seconds":               &m.CPUIdle,
		"/cpu/classes/user:cpu-seconds":               &m.CPUUser,
		"/cpu/classes/total:cpu-seconds":              &m.CPUTotal,
	}
}

// readMemory reads the memory statistics.
func readMemory(request uint64) *wire.Memory {
	m := &wire.Memory{Request: request, Procs: uint64(runtime.GOMAXPROCS(0))}
	fields := metricsOf(m)
	samples := make([]metrics.Sample, 0, len(fields))
	for name := range fields {
		samples = append(samples, metrics.Sample{Name: name})
	}
	m.Time, m.HeapLive = glti.Now(), glti.HeapLive()
	metrics.Read(samples)
	for _, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindUint64:
			*fields[s.Name] = s.Value.Uint64()
		case metrics.KindFloat64: // seconds
			*fields[s.Name] = uint64(math.Max(s.Value.Float64(), 0) * 1e9)
		}
	}
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	if gc.NumGC > 0 {
		m.LastGC, m.PauseTotal = uint64(gc.LastGC.UnixNano()), uint64(gc.PauseTotal)
	}
	return m
}

// liveHeap returns the size of the heap that the last collection found reachable.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
