package dashboard

// nodes selects the series of the selected nodes.
const nodes = `{instance=~"$instance"}`

// process are the labels that identify a process of the fleet, and its name in legends.
const (
	process = "instance, namespace, pod, process, pid"
	named   = "{{namespace}}/{{pod}} {{process}} {{pid}} on {{instance}}"
)

// instances is the variable of the nodes.
var instances = Variable{Name: "instance", Label: "Node", Of: "loupe_agent_build_info", From: "instance"}

// fleet returns the dashboard of all processes of all nodes.
func fleet() Dashboard {
	return Dashboard{
		UID: "loupe-fleet", Title: "Loupe / Fleet",
		About:     "The Go processes of all nodes: how many there are, which of them grow, wait, and use the most.",
		Variables: []Variable{instances},
		Rows:      []Row{fleetNow(), fleetGoroutines(), fleetWaits(), fleetResources(), fleetTargets()},
	}
}

func fleetNow() Row {
	return Row{Title: "Now", Panels: []Panel{
		{Title: "Nodes", About: "Nodes whose agent Prometheus scrapes.", Kind: Stat, Unit: Number, Width: 4,
			Queries: []Query{{Expr: `count(loupe_agent_build_info` + nodes + `)`}}},
		{Title: "Processes", About: "Go processes that are observed, completely or by their memory alone.", Kind: Stat, Unit: Number, Width: 4,
			Queries: []Query{{Expr: `sum(loupe_agent_targets{instance=~"$instance",status=~"observed|limited"})`}}},
		{Title: "Not observed", About: "Go processes that the agent cannot observe. The dashboard of the agent shows the causes.", Kind: Stat, Unit: Number, Width: 4,
			Queries: []Query{{Expr: `sum(loupe_agent_targets{instance=~"$instance",status="failed"})`}}},
		{Title: "Goroutines", Kind: Stat, Unit: Number, Width: 4, Queries: []Query{{Expr: `sum(go_goroutine_count` + nodes + `)`}}},
		{Title: "Leak suspects", About: "Goroutines that look leaked.", Kind: Stat, Unit: Number, Width: 4,
			Queries: []Query{{Expr: `sum(loupe_leak_suspects` + nodes + `)`}}},
		{Title: "Events lost", About: "The part of all events that was lost. More than 0.1 % is an alert.", Kind: Stat, Unit: Part, Width: 4,
			Queries: []Query{{Expr: `sum(rate(loupe_agent_events_lost_total` + nodes + interval + `))
  / (sum(rate(loupe_agent_events_received_total` + nodes + interval + `)) + sum(rate(loupe_agent_events_lost_total` + nodes + interval + `)))`}}},
	}}
}

func fleetGoroutines() Row {
	return Row{Title: "Goroutines", Panels: []Panel{
		{Title: "Most goroutines", Kind: Graph, Unit: Number,
			Queries: []Query{{`topk(10, sum by (` + process + `) (go_goroutine_count` + nodes + `))`, named}}},
		{Title: "Fastest growth", About: "Goroutines a minute, by the last 30 minutes. A value that stays above 0 is a leak.", Kind: Graph, Unit: Number,
			Queries: []Query{{`topk(10, 60 * deriv(go_goroutine_count` + nodes + `[30m]))`, named}}},
		{Title: "Leak suspects", About: "By the go statement that created them.", Kind: Graph, Unit: Number,
			Queries: []Query{{`topk(10, sum by (namespace, process, site) (loupe_leak_suspects` + nodes + `) > 0)`, "{{namespace}} {{process}}: {{site}}"}}},
		{Title: "Created", About: "Goroutines that were created in a second.", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`topk(10, sum by (` + process + `) (rate(loupe_goroutines_created_total` + nodes + interval + `)))`, named}}},
		{Title: "States", About: "Live goroutines of all processes by state.", Kind: Graph, Unit: Number, Stacked: true,
			Queries: []Query{{`sum by (state) (loupe_goroutines` + nodes + `)`, "{{state}}"}}},
		{Title: "Go releases", About: "Processes by the Go release that built them.", Kind: Graph, Unit: Number, Stacked: true,
			Queries: []Query{{`count by (go_version) (loupe_target_info` + nodes + `)`, "{{go_version}}"}}},
	}}
}

func fleetWaits() Row {
	return Row{Title: "Waits and scheduling", Panels: []Panel{
		{Title: "Time in waits by class", About: "Goroutines that waited, on average. Long-lived goroutines that wait for work dominate; a change matters more than the value.",
			Kind: Graph, Unit: Number, Stacked: true,
			Queries: []Query{{`sum by (class) (rate(loupe_goroutine_wait_seconds_total` + nodes + interval + `))`, "{{class}}"}}},
		{Title: "Longest waits for locks", About: "Minutes are a deadlock, or a lock that is held during a call that does not return.", Kind: Graph, Unit: Seconds,
			Queries: []Query{{`topk(10, max by (` + process + `) (loupe_goroutine_oldest_wait_seconds{instance=~"$instance",class="lock"}))`, named}}},
		{Title: "Scheduler latency, 99th percentile", About: "Time that goroutines were runnable before they ran, by the runtime's own histogram.", Kind: Graph, Unit: Seconds,
			Queries: []Query{{`topk(10, histogram_quantile(0.99, sum by (le, ` + process + `) (rate(go_schedule_duration_seconds_bucket` + nodes + interval + `))))`, named}}},
	}}
}

func fleetResources() Row {
	return Row{Title: "Resources", Panels: []Panel{
		{Title: "Processor time", About: "Processors in use.", Kind: Graph, Unit: Processors,
			Queries: []Query{{`topk(10, sum by (` + process + `) (rate(process_cpu_time_seconds_total` + nodes + interval + `)))`, named}}},
		{Title: "Processor time of garbage collection", About: "The part of the processor time available to the program.", Kind: Graph, Unit: Part,
			Queries: []Query{{`topk(10, sum by (` + process + `) (rate(go_cpu_time_seconds_total{instance=~"$instance",go_cpu_state="gc"}` + interval + `))
  / sum by (` + process + `) (rate(go_cpu_time_seconds_total` + nodes + interval + `)))`, named}}},
		{Title: "Resident memory", Kind: Graph, Unit: Bytes,
			Queries: []Query{{`topk(10, sum by (` + process + `) (process_memory_usage_bytes` + nodes + `))`, named}}},
		{Title: "Allocated", Kind: Graph, Unit: ByteRate,
			Queries: []Query{{`topk(10, sum by (` + process + `) (rate(go_memory_allocated_bytes_total` + nodes + interval + `)))`, named}}},
		{Title: "Memory against GOMEMLIMIT", About: "Above 90 % the garbage collector runs more and more often.", Kind: Graph, Unit: Part,
			Queries: []Query{{`topk(10, sum by (` + process + `) (go_memory_used_bytes` + nodes + `) / sum by (` + process + `) (go_memory_limit_bytes` + nodes + `))`, named}}},
		{Title: "Cost of probes", About: "The part of the target's processor time. The agent keeps it below sampling.max_target_overhead.", Kind: Graph, Unit: Part,
			Queries: []Query{{`topk(10, sum by (` + process + `) (rate(loupe_target_probe_seconds_total` + nodes + interval + `))
  / sum by (` + process + `) (rate(process_cpu_time_seconds_total` + nodes + interval + `)))`, named}}},
	}}
}

func fleetTargets() Row {
	return Row{Title: "Processes", Panels: []Panel{
		{Title: "Processes", About: "A row opens the dashboard of the process.", Kind: Table, Unit: Number, Width: 24, Link: "loupe-target",
			Columns: []string{"instance", "namespace", "pod", "container", "process", "pid", "service", "version", "go_version", "workload_kind", "workload"},
			Queries: []Query{{Expr: `loupe_target_info` + nodes}}},
	}}
}
