package dashboard

// agent returns the dashboard of the agents themselves.
func agent() Dashboard {
	return Dashboard{
		UID: "loupe-agent", Title: "Loupe / Agent",
		About:     "What the agents observe, what they lose, what they use, and what they deliver.",
		Variables: []Variable{instances},
		Rows:      []Row{agentTargets(), agentEvents(), agentResources(), agentOutputs()},
	}
}

func agentTargets() Row {
	return Row{Title: "Processes", Panels: []Panel{
		{Title: "Processes by status", About: "Limited: the memory alone, although events are wanted.", Kind: Graph, Unit: Number, Stacked: true,
			Queries: []Query{{`sum by (status) (loupe_agent_targets` + nodes + `)`, "{{status}}"}}},
		{Title: "Attach failures", About: "By cause. \"exited\" is normal: the process ended first.", Kind: Graph, Unit: Number,
			Queries: []Query{{`sum by (instance, cause) (increase(loupe_agent_attach_failures_total` + nodes + interval + `))`, "{{cause}} on {{instance}}"}}},
		{Title: "Agents", Kind: Table, Unit: Number, Columns: []string{"instance", "version", "go_version"},
			Queries: []Query{{Expr: `loupe_agent_build_info` + nodes}}},
	}}
}

func agentEvents() Row {
	return Row{Title: "Events", Panels: []Panel{
		{Title: "Events received", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`sum by (instance) (rate(loupe_agent_events_received_total` + nodes + interval + `))`, "{{instance}}"}}},
		{Title: "Events lost", About: "0 is normal.", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`sum by (instance) (rate(loupe_agent_events_lost_total` + nodes + interval + `))`, "{{instance}}"}}},
		{Title: "Fullest buffer", About: "Events are lost when a buffer is full.", Kind: Graph, Unit: Part, Max: 1,
			Queries: []Query{{`max by (instance) (loupe_agent_ring_utilization_ratio` + nodes + `)`, "{{instance}}"}}},
		{Title: "Latency", About: "Time from an event until the metrics include it.", Kind: Heatmap, Unit: Seconds, Width: 12,
			Queries: []Query{{`sum by (le) (increase(loupe_agent_event_latency_seconds_bucket` + nodes + interval + `))`, "{{le}}"}}},
		{Title: "Latency, 99th percentile", Kind: Graph, Unit: Seconds, Width: 12,
			Queries: []Query{{`histogram_quantile(0.99, sum by (le, instance) (rate(loupe_agent_event_latency_seconds_bucket` + nodes + interval + `)))`, "{{instance}}"}}},
	}}
}

func agentResources() Row {
	return Row{Title: "Resources", Panels: []Panel{
		{Title: "Budget", About: "What the agent uses, relative to its budget. Near 1 it samples less.", Kind: Graph, Unit: Part,
			Queries: []Query{{`max by (instance, resource) (loupe_agent_budget_ratio` + nodes + `)`, "{{resource}} on {{instance}}"}}},
		{Title: "Tracked goroutines", About: "At most as many as there are. More, and growing, is a leak of the agent.", Kind: Graph, Unit: Number, Queries: []Query{
			{`sum by (instance) (loupe_agent_tracked_goroutines` + nodes + `)`, "tracked on {{instance}}"},
			{`sum by (instance) (go_goroutine_count` + nodes + `)`, "live on {{instance}}"}}},
		{Title: "Cleaned goroutines", About: "Goroutines whose state was removed in a second, and those that had no room for spans.", Kind: Graph,
			Unit: PerSecond, Queries: []Query{
				{`sum by (instance) (rate(loupe_agent_cleaned_goroutines_total` + nodes + interval + `))`, "cleaned on {{instance}}"},
				{`sum by (instance) (rate(loupe_agent_untracked_goroutines_total` + nodes + interval + `))`, "without room on {{instance}}"}}},
	}}
}

func agentOutputs() Row {
	return Row{Title: "Outputs", Panels: []Panel{
		{Title: "Exported by OTLP", About: "Data points, spans, log records and profiles.", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`sum by (signal, result) (rate(loupe_agent_export_items_total` + nodes + interval + `))`, "{{signal}} {{result}}"}}},
		{Title: "Anomalies", About: "Anomalies that the agents found, in the last hour.", Kind: Graph, Unit: Number,
			Queries: []Query{{`sum by (alert) (increase(loupe_agent_alerts_total` + nodes + `[1h]))`, "{{alert}}"}}},
		{Title: "Recordings and reloads", About: "In the last hour.", Kind: Graph, Unit: Number, Queries: []Query{
			{`sum by (result) (increase(loupe_agent_recordings_total` + nodes + `[1h]))`, "recordings {{result}}"},
			{`sum by (result) (increase(loupe_agent_config_reloads_total` + nodes + `[1h]))`, "configurations {{result}}"}}},
		{Title: "Series omitted", About: "Series that scrapes omitted: of targets with too many, or with labels that are invalid or equal.", Kind: Graph, Unit: PerSecond,
			Queries: []Query{{`sum by (instance, cause) (rate(loupe_agent_series_dropped_total` + nodes + interval + `))`, "{{cause}} on {{instance}}"}}},
	}}
}
