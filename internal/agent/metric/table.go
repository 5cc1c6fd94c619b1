package metric

import "strconv"

// TargetLabels are the labels of the points of a target, in the order of [Identity.Values]. In OpenTelemetry, they are attributes of the
// resource.
var TargetLabels = []Label{
	{"namespace", "k8s.namespace.name", "the Kubernetes namespace; empty outside of Kubernetes"},
	{"pod", "k8s.pod.name", "the pod; empty outside of Kubernetes"},
	{"container", "k8s.container.name", "the container in the pod, or the container's ID; empty outside of containers"},
	{"process", "process.executable.name", "the base name of the executable"},
	{"pid", "process.pid", "the process ID, in the PID namespace of the agent"},
}

// Values returns the values of [TargetLabels].
func (i *Identity) Values() []string {
	container := i.Container
	if container == "" {
		container = i.ContainerID
	}
	return []string{i.Namespace, i.Pod, container, i.Process, strconv.Itoa(i.PID)}
}

// Functions that make the rows of the table.

func gauge(s Scope, name, otel, unit, help string, labels ...Label) *Desc {
	return &Desc{Name: name, OTel: otel, Unit: unit, Kind: Gauge, Scope: s, Labels: labels, Help: help}
}

func upDown(s Scope, name, otel, unit, help string, labels ...Label) *Desc {
	return &Desc{Name: name, OTel: otel, Unit: unit, Kind: Gauge, Scope: s, Labels: labels, Help: help, UpDown: true}
}

func counter(s Scope, name, otel, unit, help string, labels ...Label) *Desc {
	return &Desc{Name: name, OTel: otel, Unit: unit, Kind: Counter, Scope: s, Labels: labels, Help: help}
}

// histogram makes a row of durations in seconds.
func histogram(s Scope, name, otel, help string, labels ...Label) *Desc {
	return &Desc{Name: name, OTel: otel, Unit: "s", Kind: Histogram, Scope: s, Labels: labels, Help: help}
}

// Labels that several metrics share.
var (
	labelReason = Label{"reason", "loupe.goroutine.wait.reason", "the wait reason as the Go runtime spells it, such as `chan receive`"}
	labelClass  = Label{"class", "loupe.goroutine.wait.class", "the class of the wait reason: `channel`, `lock`, `io`, `sleep`, `gc` or `other`"}
	labelSite   = Label{"site", "loupe.goroutine.created_by",
		"function, file and line of the go statement; `other` for the sites beyond the configured number"}
)

// Metrics of targets that OpenTelemetry's conventions define. They are read from the memory of the process and from the kernel, and cost
// the process nothing.
var (
	MemoryUsed = upDown(Target, "go_memory_used_bytes", "go.memory.used", "By", "Memory that the Go runtime uses",
		Label{"go_memory_type", "go.memory.type", "`stack`, or `other` for the rest"})
	MemoryLimit     = upDown(Target, "go_memory_limit_bytes", "go.memory.limit", "By", "GOMEMLIMIT; absent if there is no limit")
	MemoryAllocated = counter(Target, "go_memory_allocated_bytes_total", "go.memory.allocated", "By", "Bytes that were allocated on the heap")
	Allocations     = counter(Target, "go_memory_allocations_total", "go.memory.allocations", "{allocation}",
		"Objects that were allocated on the heap")
	GCGoal = upDown(Target, "go_memory_gc_goal_bytes", "go.memory.gc.goal", "By",
		"Size of the heap at which the next garbage collection is to end")
	GCCycles = counter(Target, "go_memory_gc_cycles_total", "go.memory.gc.cycles", "{gc_cycle}", "Garbage collections that have ended")
	GCPauses = histogram(Target, "go_memory_gc_pause_duration_seconds", "go.memory.gc.pause.duration",
		"Stop-the-world pauses of the garbage collector")
	Goroutines = upDown(Target, "go_goroutine_count", "go.goroutine.count", "{goroutine}",
		"Live goroutines, as runtime.NumGoroutine counts them")
	ProcessorLimit   = upDown(Target, "go_processor_limit", "go.processor.limit", "{thread}", "GOMAXPROCS")
	ScheduleDuration = histogram(Target, "go_schedule_duration_seconds", "go.schedule.duration",
		"Time that goroutines were runnable before they ran, by the runtime's own histogram")
	GOGC    = upDown(Target, "go_config_gogc_percent", "go.config.gogc", "%", "GOGC; absent if it is off")
	CPUTime = counter(Target, "go_cpu_time_seconds_total", "go.cpu.time", "s",
		"Processor time available to the program, by use, as of the last garbage collection",
		Label{"go_cpu_state", "go.cpu.state", "`user`, `gc`, `scavenge` or `idle`"})
	ProcessCPU = counter(Target, "process_cpu_time_seconds_total", "process.cpu.time", "s", "Processor time of the process by the kernel's books",
		Label{"cpu_mode", "cpu.mode", "`user` or `system`"})
	ProcessMemory = upDown(Target, "process_memory_usage_bytes", "process.memory.usage", "By", "Resident memory of the process")
)

// Metrics of the heap and the goroutines of targets.
var (
	HeapUsed = upDown(Target, "loupe_heap_objects_bytes", "loupe.heap.objects", "By", "Objects on the heap, reachable or not yet swept")
	HeapLive = upDown(Target, "loupe_heap_live_bytes", "loupe.heap.live", "By", "Objects that the last garbage collection found reachable")

	States = upDown(Target, "loupe_goroutines", "loupe.goroutines", "{goroutine}", "Live goroutines by state and wait reason",
		Label{"state", "loupe.goroutine.state", "`running`, `runnable`, `waiting`, `syscall` or `unknown`"}, labelReason)
	Sites = upDown(Target, "loupe_goroutines_by_site", "loupe.goroutines_by_site", "{goroutine}",
		"Live goroutines by the go statement that created them", labelSite)
	Created = counter(Target, "loupe_goroutines_created_total", "loupe.goroutines_created", "{goroutine}", "Goroutines that were created")
	Ended   = counter(Target, "loupe_goroutines_ended_total", "loupe.goroutines_ended", "{goroutine}", "Goroutines that have ended")
	Waits   = counter(Target, "loupe_goroutine_waits_total", "loupe.goroutine.waits", "{wait}",
		"Waits of goroutines that have ended, scaled by the sampling ratio", labelClass, labelReason)
	WaitTime = counter(Target, "loupe_goroutine_wait_seconds_total", "loupe.goroutine.wait", "s",
		"Time of the waits that have ended, scaled by the sampling ratio", labelClass, labelReason)
	SchedulerLatency = histogram(Target, "loupe_scheduler_latency_seconds", "loupe.scheduler.latency",
		"Time from the event that made a goroutine runnable until it ran, of sampled goroutines",
		Label{"after", "loupe.scheduler.after", "what made the goroutine runnable: `created`, `woken`, `stopped` or `syscall`"})
	Allocated = counter(Target, "loupe_allocated_by_function_bytes_total", "loupe.allocated_by_function", "By",
		"Bytes that were allocated on the heap since the observation began, estimated from samples of the runtime",
		Label{"function", "loupe.function", "the function that allocates; `other` for those beyond the configured number of sites"})
	Requests = histogram(Target, "loupe_request_duration_seconds", "loupe.request.duration", "Durations of requests that have spans",
		Label{"library", "loupe.library", "the instrumented package, such as net/http, or own for spans that the program makes itself"},
		Label{"kind", "loupe.span.kind", "`server`, `client`, `producer`, `consumer` or `internal`"},
		Label{"status", "loupe.span.status", "`ok` or `error`"})
	RequestsIncomplete = counter(Target, "loupe_request_spans_incomplete_total", "loupe.request.spans_incomplete", "{span}",
		"Spans of requests that lack something: they began before the observation, or events were lost",
		Label{"lacks", "loupe.lacks", "`begin`: there is no span; `end`: the time is unknown; `work`: where the time went is uncertain"})
	LeakSuspects = upDown(Target, "loupe_leak_suspects", "loupe.leak.suspects", "{goroutine}",
		"Goroutines that look leaked, by the go statement that created them", labelSite)
	OldestWait = gauge(Target, "loupe_goroutine_oldest_wait_seconds", "loupe.goroutine.oldest_wait", "s",
		"Time that the goroutine with the longest current wait has been waiting", labelClass)
)

// Metrics about the observation of targets.
var (
	Info = gauge(Target, "loupe_target_info", "loupe.target.info", "{target}", "Always 1; the labels describe the target",
		Label{"go_version", "process.runtime.version", "the Go release"}, Label{"version", "service.version", "version of the main module"},
		Label{"service", "service.name", "the name of the service"}, Label{"workload", "loupe.workload.name", "what created the pod"},
		Label{"workload_kind", "loupe.workload.kind", "`Deployment`, `StatefulSet` and so on"}, Label{"node", "k8s.node.name", "the node"})
	Level = gauge(Target, "loupe_target_level", "loupe.target.level", "{level}",
		"What is observed: 0 the memory of the process alone, 1 also creations and ends of goroutines, 2 also their waits, 3 also when they run",
		Label{"engine", "loupe.engine", "`uprobe`, `inline`, `agent`, or `none`"})
	SamplingRatio = gauge(Target, "loupe_target_sampling_ratio", "loupe.target.sampling.ratio", "1",
		"Fraction of the goroutines whose events are observed, from 0.01 to 1",
		Label{"events", "loupe.events", "`waits` or `runs`"})
	TargetEvents = counter(Target, "loupe_target_events_total", "loupe.target.events", "{event}", "Events of the target that were received")
	TargetLost   = counter(Target, "loupe_target_events_lost_total", "loupe.target.events_lost", "{event}", "Events of the target that were lost")
	ProbeHits    = counter(Target, "loupe_target_probe_hits_total", "loupe.target.probe_hits", "{hit}", "Times that the target ran into a probe")
	ProbeTime    = counter(Target, "loupe_target_probe_seconds_total", "loupe.target.probe", "s",
		"Processor time of the target that probes took, estimated from the hits")
	Paused = gauge(Target, "loupe_target_paused", "loupe.target.paused", "{pause}",
		"1 while events of the target are not observed, although they are wanted",
		Label{"why", "loupe.why", "`overhead`, `budget`, `config` or `attach`"})
)

// Metrics of the agent.
var (
	EventsReceived = counter(Agent, "loupe_agent_events_received_total", "loupe.agent.events.received", "{event}",
		"Events of all targets that were received")
	EventsLost = counter(Agent, "loupe_agent_events_lost_total", "loupe.agent.events.lost", "{event}", "Events of all targets that were lost")
	RingUsed   = gauge(Agent, "loupe_agent_ring_utilization_ratio", "loupe.agent.ring.utilization", "1",
		"Utilization of the fullest buffer between a target and the agent, from 0 to 1")
	EventLatency = histogram(Agent, "loupe_agent_event_latency_seconds", "loupe.agent.event.latency", "Time from an event until the metrics include it")
	Tracked      = upDown(Agent, "loupe_agent_tracked_goroutines", "loupe.agent.tracked_goroutines", "{goroutine}",
		"Goroutines that the agent has state for")
	Cleaned = counter(Agent, "loupe_agent_cleaned_goroutines_total", "loupe.agent.cleaned_goroutines", "{goroutine}",
		"Goroutines whose state was removed")
	Untracked = counter(Agent, "loupe_agent_untracked_goroutines_total", "loupe.agent.untracked_goroutines", "{goroutine}",
		"Goroutines that have no spans because there was no room for their state")
	AttachFailures = counter(Agent, "loupe_agent_attach_failures_total", "loupe.agent.attach.failures", "{failure}",
		"Processes that could not be observed",
		Label{"cause", "error.type", "the cause: `permission`, `unsupported`, `layout`, `traced`, `exited`, `memory` or `other`"})
	Targets = upDown(Agent, "loupe_agent_targets", "loupe.agent.targets", "{process}", "Go processes on the node",
		Label{"status", "loupe.status", "`observed`, `limited` (memory alone, although events are wanted), `failed` or `excluded`"})
	Alerts = counter(Agent, "loupe_agent_alerts_total", "loupe.agent.alerts", "{alert}", "Anomalies that were found",
		Label{"alert", "loupe.alert", "`goroutine_growth`, `leak`, `latency`, `stall` or `loss`"})
	Recordings = counter(Agent, "loupe_agent_recordings_total", "loupe.agent.recordings", "{recording}", "Recordings of the seconds before an anomaly",
		Label{"result", "loupe.result", "`written`, `dropped` (the directory was full) or `failed`"})
	ExportItems = counter(Agent, "loupe_agent_export_items_total", "loupe.agent.export.items", "{item}",
		"Data points, spans, log records and profiles for the OTLP endpoint",
		Label{"signal", "loupe.signal", "`metrics`, `traces`, `logs` or `profiles`"}, Label{"result", "loupe.result", "`exported`, `failed` or `dropped`"})
	SeriesDropped = counter(Agent, "loupe_agent_series_dropped_total", "loupe.agent.series.dropped", "{series}",
		"Series that scrapes omitted, counted at each scrape",
		Label{"cause", "loupe.cause", "`limit` (the target has more series than configured), `duplicate` or `invalid`"})
	ConfigReloads = counter(Agent, "loupe_agent_config_reloads_total", "loupe.agent.config.reloads", "{reload}", "Reloads of the configuration",
		Label{"result", "loupe.result", "`applied` or `refused`"})
	BudgetRatio = gauge(Agent, "loupe_agent_budget_ratio", "loupe.agent.budget", "1", "What the agent uses, relative to its budget",
		Label{"resource", "loupe.resource", "`cpu` or `memory`"})
	BuildInfo = gauge(Agent, "loupe_agent_build_info", "loupe.agent.build.info", "{build}", "Always 1; the labels describe the agent",
		Label{"version", "service.version", "version of Loupe"}, Label{"go_version", "process.runtime.version", "the Go release that built the agent"})
)

// Table has all metrics, in the order of the documentation.
var Table = []*Desc{
	MemoryUsed, MemoryLimit, MemoryAllocated, Allocations, GCGoal, GCCycles, GCPauses, Goroutines, ProcessorLimit, ScheduleDuration, GOGC, CPUTime,
	ProcessCPU, ProcessMemory,
	HeapUsed, HeapLive, States, Sites, Created, Ended, Waits, WaitTime, SchedulerLatency, Allocated, Requests, RequestsIncomplete, LeakSuspects, OldestWait,
	Info, Level, SamplingRatio, TargetEvents, TargetLost, ProbeHits, ProbeTime, Paused,
	EventsReceived, EventsLost, RingUsed, EventLatency, Tracked, Cleaned, Untracked, AttachFailures, Targets, Alerts, Recordings, ExportItems, SeriesDropped,
	ConfigReloads, BudgetRatio, BuildInfo,
}
