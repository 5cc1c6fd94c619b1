package dashboard

// this selects the series of the selected process. Further matchers follow a comma.
const this = `instance=~"$instance",namespace=~"$namespace",pod=~"$pod",process=~"$process",pid=~"$pid"`

// target returns the dashboard of one process.
func target() Dashboard {
	// Each choice narrows the next one.
	info := func(matchers string) string { return "loupe_target_info{" + matchers + "}" }
	return Dashboard{
		UID: "loupe-target", Title: "Loupe / Process",
		About: "What the goroutines of one process do, how long they wait, and what they cost. Without a selection it is the sum of all processes.",
		Variables: []Variable{
			instances,
			{Name: "namespace", Label: "Namespace", Of: info(`instance=~"$instance"`), From: "namespace"},
			{Name: "pod", Label: "Pod", Of: info(`instance=~"$instance",namespace=~"$namespace"`), From: "pod"},
			{Name: "process", Label: "Process", Of: info(`instance=~"$instance",namespace=~"$namespace",pod=~"$pod"`), From: "process"},
			{Name: "pid", Label: "PID", Of: info(`instance=~"$instance",namespace=~"$namespace",pod=~"$pod",process=~"$process"`), From: "pid"},
		},
		Rows: []Row{targetGoroutines(), targetWaits(), targetScheduler(), targetRequests(), targetMemory(), targetProcessor(), targetProbes()},
	}
}

func targetGoroutines() Row {
	return Row{Title: "Goroutines", Panels: []Panel{
		{Title: "States", Kind: Graph, Unit: Number, Stacked: true,
			Queries: []Query{{`sum by (state) (loupe_goroutines{` + this + `})`, "{{state}}"}}},
		{Title: "Wait reasons", About: "Waiting goroutines by the wait reason of the Go runtime.", Kind: Graph, Unit: Number, Stacked: true,
			Queries: []Query{{`topk(10, sum by (reason) (loupe_goroutines{` + this + `,state="waiting"}))`, "{{reason}}"}}},
		{Title: "Created at", About: "Live goroutines by the go statement that created them. A line that only grows is a leak.", Kind: Graph, Unit: Number,
			Queries: []Query{{`topk(15, sum by (site) (loupe_goroutines_by_site{` + this + `}))`, "{{site}}"}}},
		{Title: "Created and ended", About: "Exact counts; sampling does not change them.", Kind: Graph, Unit: PerSecond, Queries: []Query{
			{`sum(rate(loupe_goroutines_created_total{` + this + `}` + interval + `))`, "created"},
			{`sum(rate(loupe_goroutines_ended_total{` + this + `}` + interval + `))`, "ended"}}},
		{Title: "Leak suspects", About: "Goroutines that look leaked, by the go statement that created them.", Kind: Table, Unit: Number,
			Columns: []string{"process", "pid", "site", "Value"},
			Queries: []Query{{Expr: `sum by (process, pid, site) (loupe_leak_suspects{` + this + `})`}}},
		{Title: "Goroutines", About: "All goroutines by the runtime's count.", Kind: Graph, Unit: Number,
			Queries: []Query{{`sum by (process, pid) (go_goroutine_count{` + this + `})`, "{{process}} {{pid}}"}}},
	}}
}

func targetWaits() Row {
	return Row{Title: "Waits", Panels: []Panel{
		{Title: "Time in waits by class", About: "Goroutines that waited, on average, by waits that have ended.", Kind: Graph, Unit: Number, Stacked: true,
			Queries: []Query{{`sum by (class) (rate(loupe_goroutine_wait_seconds_total{` + this + `}` + interval + `))`, "{{class}}"}}},
		{Title: "Waits", About: "Waits that ended in a second.", Kind: Graph, Unit: PerSecond, Stacked: true,
			Queries: []Query{{`sum by (class) (rate(loupe_goroutine_waits_total{` + this + `}` + interval + `))`, "{{class}}"}}},
		{Title: "Mean wait by reason", Kind: Graph, Unit: Seconds,
			Queries: []Query{{`sum by (reason) (rate(loupe_goroutine_wait_seconds_total{` + this + `}` + interval + `))
  / sum by (reason) (rate(loupe_goroutine_waits_total{` + this + `}` + interval + `))`, "{{reason}}"}}},
		{Title: "Longest current wait", About: "Lines that grow at 45° are goroutines that nobody wakes up. This is normal for workers without work.", Kind: Graph, Unit: Seconds, Width: 12,
			Queries: []Query{{`max by (class) (loupe_goroutine_oldest_wait_seconds{` + this + `})`, "{{class}}"}}},
		{Title: "Contention of locks", About: "Goroutines that waited for locks, on average, by reason.", Kind: Graph, Unit: Number, Width: 12,
			Queries: []Query{{`sum by (reason) (rate(loupe_goroutine_wait_seconds_total{` + this + `,class="lock"}` + interval + `))`, "{{reason}}"}}},
	}}
}

func targetScheduler() Row {
	return Row{Title: "Scheduler", Panels: []Panel{
		{Title: "Scheduler latency", About: "Time from the event that made a goroutine runnable until it ran, of sampled goroutines. Requires level 3.", Kind: Heatmap, Unit: Seconds, Width: 12,
			Queries: []Query{{`sum by (le) (increase(loupe_scheduler_latency_seconds_bucket{` + this + `}` + interval + `))`, "{{le}}"}}},
		{Title: "Scheduler latency by the runtime", About: "By the runtime's own histogram, which requires no probes.", Kind: Graph, Unit: Seconds, Width: 6, Queries: []Query{
			{`histogram_quantile(0.5, sum by (le) (rate(go_schedule_duration_seconds_bucket{` + this + `}` + interval + `)))`, "median"},
			{`histogram_quantile(0.99, sum by (le) (rate(go_schedule_duration_seconds_bucket{` + this + `}` + interval + `)))`, "99th percentile"}}},
		{Title: "99th percentile by cause", About: "By what made the goroutine runnable.", Kind: Graph, Unit: Seconds, Width: 6,
			Queries: []Query{{`histogram_quantile(0.99, sum by (le, after) (rate(loupe_scheduler_latency_seconds_bucket{` + this + `}` + interval + `)))`, "{{after}}"}}},
	}}
}

func targetRequests() Row {
	return Row{Title: "Requests", Panels: []Panel{
		{Title: "Requests", About: "Requests that have spans. Requires tracing.spans.", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`sum by (library, kind, status) (rate(loupe_request_duration_seconds_count{` + this + `}` + interval + `))`, "{{library}} {{kind}}, {{status}}"}}},
		{Title: "Durations", About: "Points are exemplars, which lead to spans.", Kind: Graph, Unit: Seconds, Queries: []Query{
			{`histogram_quantile(0.5, sum by (le, library, kind) (rate(loupe_request_duration_seconds_bucket{` + this + `}` + interval + `)))`, "{{library}} {{kind}}, median"},
			{`histogram_quantile(0.99, sum by (le, library, kind) (rate(loupe_request_duration_seconds_bucket{` + this + `}` + interval + `)))`, "{{library}} {{kind}}, 99th percentile"}}},
		{Title: "Incomplete spans", About: "Spans without a begin or an end, and those of which it is uncertain where the time went.", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`sum by (lacks) (rate(loupe_request_spans_incomplete_total{` + this + `}` + interval + `))`, "{{lacks}}"}}},
	}}
}

func targetMemory() Row {
	return Row{Title: "Memory and garbage collection", Panels: []Panel{
		{Title: "Memory", Kind: Graph, Unit: Bytes, Queries: []Query{
			{`sum(process_memory_usage_bytes{` + this + `})`, "resident"},
			{`sum(go_memory_used_bytes{` + this + `})`, "used by the runtime"},
			{`sum(go_memory_used_bytes{` + this + `,go_memory_type="stack"})`, "stacks"},
			{`sum(loupe_heap_objects_bytes{` + this + `})`, "heap objects"},
			{`sum(loupe_heap_live_bytes{` + this + `})`, "live at the last collection"},
			{`sum(go_memory_gc_goal_bytes{` + this + `})`, "goal of the collector"},
			{`sum(go_memory_limit_bytes{` + this + `})`, "GOMEMLIMIT"}}},
		{Title: "Allocated", Kind: Graph, Unit: ByteRate,
			Queries: []Query{{`sum by (process, pid) (rate(go_memory_allocated_bytes_total{` + this + `}` + interval + `))`, "{{process}} {{pid}}"}}},
		{Title: "Allocations", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`sum by (process, pid) (rate(go_memory_allocations_total{` + this + `}` + interval + `))`, "{{process}} {{pid}}"}}},
		{Title: "Allocated by function", About: "Estimated from samples of the runtime. Requires tracing.allocations.", Kind: Graph, Unit: ByteRate,
			Queries: []Query{{`sum by (function) (rate(loupe_allocated_by_function_bytes_total{` + this + `}` + interval + `))`, "{{function}}"}}},
		{Title: "Garbage collections", Kind: Graph, Unit: PerSecond, Queries: []Query{
			{`sum by (process, pid) (rate(go_memory_gc_cycles_total{` + this + `}` + interval + `))`, "{{process}} {{pid}}"}}},
		{Title: "Pauses", About: "Stop-the-world pauses of the garbage collector.", Kind: Heatmap, Unit: Seconds,
			Queries: []Query{{`sum by (le) (increase(go_memory_gc_pause_duration_seconds_bucket{` + this + `}` + interval + `))`, "{{le}}"}}},
		{Title: "GOGC", Kind: Graph, Unit: Number, Queries: []Query{{`max by (process, pid) (go_config_gogc_percent{` + this + `})`, "{{process}} {{pid}}"}}},
	}}
}

func targetProcessor() Row {
	return Row{Title: "Processor time", Panels: []Panel{
		{Title: "Processors in use", About: "By the kernel's books.", Kind: Graph, Unit: Processors, Width: 12, Stacked: true, Queries: []Query{
			{`sum by (cpu_mode) (rate(process_cpu_time_seconds_total{` + this + `}` + interval + `))`, "{{cpu_mode}}"}}},
		{Title: "Processors by use", About: "By the runtime's books, which change at each garbage collection. GOMAXPROCS is the sum.", Kind: Graph, Unit: Processors, Width: 12, Queries: []Query{
			{`sum by (go_cpu_state) (rate(go_cpu_time_seconds_total{` + this + `}` + interval + `))`, "{{go_cpu_state}}"},
			{`sum(go_processor_limit{` + this + `})`, "GOMAXPROCS"}}},
	}}
}

func targetProbes() Row {
	return Row{Title: "Observation", Panels: []Panel{
		{Title: "Cost of probes", About: "The part of the target's processor time.", Kind: Graph, Unit: Part,
			Queries: []Query{{`sum by (process, pid) (rate(loupe_target_probe_seconds_total{` + this + `}` + interval + `))
  / sum by (process, pid) (rate(process_cpu_time_seconds_total{` + this + `}` + interval + `))`, "{{process}} {{pid}}"}}},
		{Title: "Level and sampling", About: "Level 0: memory alone, 1: creations and ends, 2: waits, 3: runs. The ratios are the parts of the goroutines.", Kind: Graph, Unit: Number, Queries: []Query{
			{`max by (engine) (loupe_target_level{` + this + `})`, "level, {{engine}}"},
			{`min by (events) (loupe_target_sampling_ratio{` + this + `})`, "ratio of {{events}}"},
			{`max by (why) (loupe_target_paused{` + this + `})`, "paused, {{why}}"}}},
		{Title: "Events", Kind: Graph, Unit: PerSecond, Queries: []Query{
			{`sum(rate(loupe_target_events_total{` + this + `}` + interval + `))`, "received"},
			{`sum(rate(loupe_target_events_lost_total{` + this + `}` + interval + `))`, "lost"},
			{`sum(rate(loupe_target_probe_hits_total{` + this + `}` + interval + `))`, "probe hits"}}},
	}}
}
