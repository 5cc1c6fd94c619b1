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

// Labels that several metrics share.
var (
	labelReason = Label{"reason", "go.goroutine.wait.reason", "the wait reason as the Go runtime spells it, such as `chan receive`"}
	labelClass  = Label{"class", "go.goroutine.wait.class", "the class of the wait reason: `channel`, `lock`, `io`, `sleep`, `gc` or `other`"}
	labelSite   = Label{"site", "go.goroutine.created_by", "function, file and line of the go statement; `other` for the sites beyond the configured number"}
	labelCause  = Label{"cause", "error.type", "the cause: `permission`, `unsupported`, `layout`, `traced`, `exited`, `memory` or `other`"}
)

// Metrics of targets that OpenTelemetry's conventions for Go define. They are read from the memory of the process, and cost it nothing.
var (
	MemoryUsed = &Desc{"go_memory_used_bytes", "go.memory.used", "By", Gauge, Target,
		[]Label{{"go_memory_type", "go.memory.type", "`stack`, or `other` for the rest"}}, "Memory that the Go runtime uses"}
	MemoryLimit     = &Desc{"go_memory_limit_bytes", "go.memory.limit", "By", Gauge, Target, nil, "GOMEMLIMIT; absent if there is no limit"}
	MemoryAllocated = &Desc{"go_memory_allocated_bytes_total", "go.memory.allocated", "By", Counter, Target, nil, "Bytes that were allocated on the heap"}
	Allocations     = &Desc{"go_memory_allocations_total", "go.memory.allocations", "{allocation}", Counter, Target, nil, "Objects that were allocated on the heap"}
	GCGoal          = &Desc{"go_memory_gc_goal_bytes", "go.memory.gc.goal", "By", Gauge, Target, nil, "Size of the heap at which the next garbage collection is to end"}
	GCCycles        = &Desc{"go_memory_gc_cycles_total", "go.memory.gc.cycles", "{gc_cycle}", Counter, Target, nil, "Garbage collections that have ended"}
	GCPauses        = &Desc{"go_memory_gc_pause_duration_seconds", "go.memory.gc.pause.duration", "s", Histogram, Target, nil,
		"Stop-the-world pauses of the garbage collector"}
	Goroutines       = &Desc{"go_goroutine_count", "go.goroutine.count", "{goroutine}", Gauge, Target, nil, "Live goroutines, as runtime.NumGoroutine counts them"}
	ProcessorLimit   = &Desc{"go_processor_limit", "go.processor.limit", "{thread}", Gauge, Target, nil, "GOMAXPROCS"}
	ScheduleDuration = &Desc{"go_schedule_duration_seconds", "go.schedule.duration", "s", Histogram, Target, nil,
		"Time that goroutines were runnable before they ran, by the runtime's own histogram"}
	GOGC    = &Desc{"go_config_gogc_percent", "go.config.gogc", "%", Gauge, Target, nil, "GOGC; absent if it is off"}
	CPUTime = &Desc{"go_cpu_time_seconds_total", "go.cpu.time", "s", Counter, Target,
		[]Label{{"go_cpu_state", "go.cpu.state", "`user`, `gc`, `scavenge` or `idle`"}}, "Processor time available to the program, by use, as of the last garbage collection"}
	ProcessCPU = &Desc{"process_cpu_time_seconds_total", "process.cpu.time", "s", Counter, Target,
		[]Label{{"cpu_mode", "cpu.mode", "`user` or `system`"}}, "Processor time of the process by the kernel's books"}
	ProcessMemory = &Desc{"process_memory_usage_bytes", "process.memory.usage", "By", Gauge, Target, nil, "Resident memory of the process"}
	HeapUsed      = &Desc{"loupe_heap_objects_bytes", "loupe.heap.objects", "By", Gauge, Target, nil, "Objects on the heap, reachable or not yet swept"}
	HeapLive      = &Desc{"loupe_heap_live_bytes", "loupe.heap.live", "By", Gauge, Target, nil, "Objects that the last garbage collection found reachable"}
)

// Metrics of the goroutines of targets.
var (
	States = &Desc{"loupe_goroutines", "loupe.goroutines", "{goroutine}", Gauge, Target,
		[]Label{{"state", "go.goroutine.state", "`running`, `runnable`, `waiting`, `syscall` or `unknown`"}, labelReason}, "Live goroutines by state and wait reason"}
	Sites = &Desc{"loupe_goroutines_by_site", "loupe.goroutines.by_site", "{goroutine}", Gauge, Target, []Label{labelSite},
		"Live goroutines by the go statement that created them"}
	Created = &Desc{"loupe_goroutines_created_total", "loupe.goroutines.created", "{goroutine}", Counter, Target, nil, "Goroutines that were created"}
	Ended   = &Desc{"loupe_goroutines_ended_total", "loupe.goroutines.ended", "{goroutine}", Counter, Target, nil, "Goroutines that have ended"}
	Waits   = &Desc{"loupe_goroutine_waits_total", "loupe.goroutine.waits", "{wait}", Counter, Target, []Label{labelClass, labelReason},
		"Waits of goroutines that have ended, scaled by the sampling ratio"}
	WaitTime = &Desc{"loupe_goroutine_wait_seconds_total", "loupe.goroutine.wait.time", "s", Counter, Target, []Label{labelClass, labelReason},
		"Time of these waits, scaled by the sampling ratio"}
	SchedulerLatency = &Desc{"loupe_scheduler_latency_seconds", "loupe.scheduler.latency", "s", Histogram, Target,
		[]Label{{"after", "loupe.scheduler.after", "what made the goroutine runnable: `created`, `woken`, `stopped` or `syscall`"}},
		"Time from the event that made a goroutine runnable until it ran, of sampled goroutines"}
	LeakSuspects = &Desc{"loupe_leak_suspects", "loupe.leak.suspects", "{goroutine}", Gauge, Target, []Label{labelSite},
		"Goroutines that look leaked, by the go statement that created them"}
	OldestWait = &Desc{"loupe_goroutine_oldest_wait_seconds", "loupe.goroutine.wait.oldest", "s", Gauge, Target, []Label{labelClass},
		"Time that the goroutine with the longest current wait has been waiting"}
)

// Metrics about the observation of targets.
var (
	Info = &Desc{"loupe_target_info", "loupe.target", "1", Gauge, Target,
		[]Label{{"go_version", "process.runtime.version", "the Go release"}, {"version", "service.version", "version of the main module"},
			{"service", "service.name", "the name of the service"}, {"workload", "k8s.workload.name", "what created the pod"},
			{"workload_kind", "k8s.workload.kind", "`Deployment`, `StatefulSet` and so on"}, {"node", "k8s.node.name", "the node"}}, "1"}
	Level = &Desc{"loupe_target_level", "loupe.target.level", "1", Gauge, Target,
		[]Label{{"engine", "loupe.engine", "`uprobe`, `inline`, `agent`, or `none`"}},
		"What is observed: 0 the memory of the process alone, 1 also creations and ends of goroutines, 2 also their waits, 3 also when they run"}
	SamplingRatio = &Desc{"loupe_target_sampling_ratio", "loupe.target.sampling.ratio", "1", Gauge, Target,
		[]Label{{"events", "loupe.events", "`waits` or `runs`"}}, "The part of the goroutines whose events are observed, from 0.01 to 1"}
	TargetEvents = &Desc{"loupe_target_events_total", "loupe.target.events", "{event}", Counter, Target, nil, "Events that were received"}
	TargetLost   = &Desc{"loupe_target_events_lost_total", "loupe.target.events.lost", "{event}", Counter, Target, nil, "Events that were lost"}
	ProbeHits    = &Desc{"loupe_target_probe_hits_total", "loupe.target.probe.hits", "{hit}", Counter, Target, nil, "Times that the target ran into a probe"}
	ProbeTime    = &Desc{"loupe_target_probe_seconds_total", "loupe.target.probe.time", "s", Counter, Target, nil,
		"Processor time of the target that probes took, estimated from the hits"}
	Paused = &Desc{"loupe_target_paused", "loupe.target.paused", "1", Gauge, Target,
		[]Label{{"why", "loupe.why", "`overhead`, `budget`, `config` or `attach`"}}, "1 while events of the target are not observed, although they are wanted"}
)

// Metrics of the agent.
var (
	EventsReceived = &Desc{"loupe_agent_events_received_total", "loupe.agent.events.received", "{event}", Counter, Agent, nil, "Events of all targets that were received"}
	EventsLost     = &Desc{"loupe_agent_events_lost_total", "loupe.agent.events.lost", "{event}", Counter, Agent, nil, "Events of all targets that were lost"}
	RingUsed       = &Desc{"loupe_agent_ring_utilization_ratio", "loupe.agent.ring.utilization", "1", Gauge, Agent, nil, "Utilization of the fullest buffer between a target and the agent, from 0 to 1"}
	EventLatency   = &Desc{"loupe_agent_event_latency_seconds", "loupe.agent.event.latency", "s", Histogram, Agent, nil, "Time from an event until the metrics include it"}
	Tracked        = &Desc{"loupe_agent_tracked_goroutines", "loupe.agent.goroutines.tracked", "{goroutine}", Gauge, Agent, nil, "Goroutines that the agent has state for"}
	Cleaned        = &Desc{"loupe_agent_cleaned_goroutines_total", "loupe.agent.goroutines.cleaned", "{goroutine}", Counter, Agent, nil, "Goroutines whose state was removed"}
	AttachFailures = &Desc{"loupe_agent_attach_failures_total", "loupe.agent.attach.failures", "{failure}", Counter, Agent, []Label{labelCause}, "Processes that could not be observed"}
	Targets        = &Desc{"loupe_agent_targets", "loupe.agent.targets", "{process}", Gauge, Agent,
		[]Label{{"status", "loupe.status", "`observed`, `limited` (memory alone, although events are wanted), `failed` or `excluded`"}}, "Go processes on the node"}
	Alerts = &Desc{"loupe_agent_alerts_total", "loupe.agent.alerts", "{alert}", Counter, Agent,
		[]Label{{"alert", "loupe.alert", "`goroutine_growth`, `leak`, `latency`, `stall` or `loss`"}}, "Anomalies that were found"}
	Recordings = &Desc{"loupe_agent_recordings_total", "loupe.agent.recordings", "{recording}", Counter, Agent,
		[]Label{{"result", "loupe.result", "`written`, `dropped` (the directory was full) or `failed`"}}, "Recordings of the seconds before an anomaly"}
	ExportItems = &Desc{"loupe_agent_export_items_total", "loupe.agent.export.items", "{item}", Counter, Agent,
		[]Label{{"signal", "loupe.signal", "`metrics`, `traces`, `logs` or `profiles`"}, {"result", "loupe.result", "`exported`, `failed` or `dropped`"}},
		"Data points, spans, log records and profiles for the OTLP endpoint"}
	ConfigReloads = &Desc{"loupe_agent_config_reloads_total", "loupe.agent.config.reloads", "{reload}", Counter, Agent,
		[]Label{{"result", "loupe.result", "`applied` or `refused`"}}, "Reloads of the configuration"}
	BudgetRatio = &Desc{"loupe_agent_budget_ratio", "loupe.agent.budget.ratio", "1", Gauge, Agent,
		[]Label{{"resource", "loupe.resource", "`cpu` or `memory`"}}, "What the agent uses, relative to its budget"}
	SeriesDropped = &Desc{"loupe_agent_series_dropped_total", "loupe.agent.series.dropped", "{series}", Counter, Agent,
		[]Label{{"cause", "loupe.cause", "`limit` (the target has more series than configured), `duplicate` or `invalid`"}},
		"Series that scrapes omitted, once for each scrape"}
	BuildInfo = &Desc{"loupe_agent_build_info", "loupe.agent.build", "1", Gauge, Agent,
		[]Label{{"version", "service.version", "version of Loupe"}, {"go_version", "process.runtime.version", "the Go release that built the agent"}}, "1"}
)

// Table has all metrics, in the order of the documentation.
var Table = []*Desc{
	MemoryUsed, MemoryLimit, MemoryAllocated, Allocations, GCGoal, GCCycles, GCPauses, Goroutines, ProcessorLimit, ScheduleDuration, GOGC, CPUTime,
	ProcessCPU, ProcessMemory, HeapUsed, HeapLive,
	States, Sites, Created, Ended, Waits, WaitTime, SchedulerLatency, LeakSuspects, OldestWait,
	Info, Level, SamplingRatio, TargetEvents, TargetLost, ProbeHits, ProbeTime, Paused,
	EventsReceived, EventsLost, RingUsed, EventLatency, Tracked, Cleaned, AttachFailures, Targets, Alerts, Recordings, ExportItems, ConfigReloads,
	BudgetRatio, SeriesDropped, BuildInfo,
}
