package metrictest

import (
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/gostate"
)

// A shape is how a series changes with time.
type shape struct {
	labels  []string
	value   float64 // of a gauge its mean, of a counter its growth in a second, of a histogram the durations in a second
	swing   float64 // of a gauge
	seconds float64 // of a histogram the typical duration
}

// The go statements of the programs.
const (
	siteServe  = "net/http.(*Server).Serve server.go:3285"
	siteWorker = "main.(*pool).start pool.go:41"
	siteWatch  = "main.watch[...] watch.go:88"
)

const mib = 1 << 20

// shapes has the series of each row of the table. Labels of [metric.Info] come from the target.
var shapes = map[*metric.Desc][]shape{
	metric.MemoryUsed:       {{labels: []string{"stack"}, value: 4 * mib, swing: mib}, {labels: []string{"other"}, value: 90 * mib, swing: 20 * mib}},
	metric.MemoryLimit:      {{value: 512 * mib}},
	metric.MemoryAllocated:  {{value: 25 * mib}},
	metric.Allocations:      {{value: 300_000}},
	metric.GCGoal:           {{value: 96 * mib, swing: 8 * mib}},
	metric.GCCycles:         {{value: 0.5}},
	metric.GCPauses:         {{value: 1, seconds: 60e-6}},
	metric.Goroutines:       {{value: 400, swing: 60}},
	metric.ProcessorLimit:   {{value: 4}},
	metric.ScheduleDuration: {{value: 20, seconds: 15e-6}},
	metric.GOGC:             {{value: 100}},
	metric.CPUTime: {
		{labels: []string{"user"}, value: 0.4}, {labels: []string{"gc"}, value: 0.05}, {labels: []string{"scavenge"}, value: 0.001},
		{labels: []string{"idle"}, value: 3.5},
	},
	metric.ProcessCPU:    {{labels: []string{"user"}, value: 0.4}, {labels: []string{"system"}, value: 0.06}},
	metric.ProcessMemory: {{value: 120 * mib, swing: 20 * mib}},
	metric.HeapUsed:      {{value: 70 * mib, swing: 15 * mib}},
	metric.HeapLive:      {{value: 45 * mib, swing: 5 * mib}},

	metric.States: {
		{labels: []string{"running", ""}, value: 2, swing: 1}, {labels: []string{"runnable", ""}, value: 3, swing: 2},
		{labels: []string{"waiting", "chan receive"}, value: 150, swing: 30}, {labels: []string{"waiting", "select"}, value: 120, swing: 20},
		{labels: []string{"waiting", "IO wait"}, value: 110, swing: 10}, {labels: []string{"waiting", gostate.MutexLock}, value: 5, swing: 4},
		{labels: []string{"syscall", ""}, value: 4, swing: 2},
	},
	metric.Sites: {
		{labels: []string{siteServe}, value: 220, swing: 40}, {labels: []string{siteWorker}, value: 128},
		{labels: []string{siteWatch}, value: 32, swing: 5}, {labels: []string{"other"}, value: 20, swing: 5},
	},
	metric.Created: {{value: 120}},
	metric.Ended:   {{value: 120}},
	metric.Waits: {
		{labels: []string{"channel", "chan receive"}, value: 900}, {labels: []string{"channel", "select"}, value: 700},
		{labels: []string{"lock", gostate.MutexLock}, value: 40}, {labels: []string{"io", "IO wait"}, value: 500},
	},
	metric.WaitTime: {
		{labels: []string{"channel", "chan receive"}, value: 150}, {labels: []string{"channel", "select"}, value: 120},
		{labels: []string{"lock", gostate.MutexLock}, value: 0.3}, {labels: []string{"io", "IO wait"}, value: 100},
	},
	metric.SchedulerLatency: {
		{labels: []string{"created"}, value: 8, seconds: 8e-6}, {labels: []string{"woken"}, value: 20, seconds: 12e-6},
		{labels: []string{"stopped"}, value: 2, seconds: 200e-6}, {labels: []string{"syscall"}, value: 1, seconds: 30e-6},
	},
	metric.Allocated: {{labels: []string{"main.(*store).get"}, value: 1e6}, {labels: []string{"encoding/json.Marshal"}, value: 4e5}},
	metric.Requests: {
		{labels: []string{"net/http", "server", "ok"}, value: 200, seconds: 0.004}, {labels: []string{"net/http", "server", "error"}, value: 1, seconds: 0.02},
		{labels: []string{"database/sql", "client", "ok"}, value: 150, seconds: 0.001},
	},
	metric.RequestsIncomplete: {{labels: []string{"begin"}, value: 0}, {labels: []string{"end"}, value: 0}, {labels: []string{"work"}, value: 1}},
	metric.LeakSuspects:       {{labels: []string{siteWatch}, value: 2}},
	metric.OldestWait: {
		{labels: []string{"channel"}, value: 600, swing: 100}, {labels: []string{"lock"}, value: 0.02, swing: 0.01},
		{labels: []string{"io"}, value: 300, swing: 100},
	},

	metric.Info:          {{value: 1}},
	metric.Level:         {{labels: []string{"uprobe"}, value: 3}},
	metric.SamplingRatio: {{labels: []string{"waits"}, value: 0.5, swing: 0.2}, {labels: []string{"runs"}, value: 0.1, swing: 0.05}},
	metric.TargetEvents:  {{value: 1800}},
	metric.TargetLost:    {{value: 0}},
	metric.ProbeHits:     {{value: 2400}},
	metric.ProbeTime:     {{value: 0.003}},
	metric.Paused:        {{labels: []string{"overhead"}, value: 0}, {labels: []string{"budget"}, value: 0}},

	metric.EventsReceived: {{value: 20_000}},
	metric.EventsLost:     {{value: 0}},
	metric.RingUsed:       {{value: 0.08, swing: 0.05}},
	metric.EventLatency:   {{value: 50, seconds: 70e-6}},
	metric.Tracked:        {{value: 4000, swing: 400}},
	metric.Cleaned:        {{value: 1200}},
	metric.Untracked:      {{value: 3}},
	metric.AttachFailures: {{labels: []string{"permission"}, value: 0}, {labels: []string{"layout"}, value: 0}},
	metric.Targets: {
		{labels: []string{"observed"}, value: 9, swing: 0}, {labels: []string{"limited"}, value: 1}, {labels: []string{"failed"}, value: 0},
		{labels: []string{"excluded"}, value: 2},
	},
	metric.Alerts:     {{labels: []string{"goroutine_growth"}, value: 0.001}, {labels: []string{"latency"}, value: 0}},
	metric.Recordings: {{labels: []string{"written"}, value: 0.001}, {labels: []string{"dropped"}, value: 0}, {labels: []string{"failed"}, value: 0}},
	metric.ExportItems: {
		{labels: []string{"metrics", "exported"}, value: 60}, {labels: []string{"traces", "exported"}, value: 200},
		{labels: []string{"traces", "dropped"}, value: 0}, {labels: []string{"logs", "exported"}, value: 0.1},
		{labels: []string{"profiles", "failed"}, value: 0},
	},
	metric.ConfigReloads: {{labels: []string{"applied"}, value: 0.001}, {labels: []string{"refused"}, value: 0}},
	metric.BudgetRatio:   {{labels: []string{"cpu"}, value: 0.2, swing: 0.1}, {labels: []string{"memory"}, value: 0.35, swing: 0.05}},
	metric.BuildInfo:     {{labels: []string{"v0.1.0", "go1.27.4"}, value: 1}},
}
