package main

// latency prints how long events take from the probe to the handler, which takes them through the state machine.
func (b *bench) latency() error {
	scenes := []scene{{name: "idle: a round trip of 6 events every 50 ms", program: "pingpong", args: []string{"-every=50ms"}}, website, pingpong}
	header("target", "engine", "events timed", "p50", "p90", "p99", "longest")
	for _, s := range scenes {
		for _, engine := range []string{"uprobe", "inline"} {
			var results []latency
			for range b.rounds {
				l, err := b.timeEvents(s, order{StackDepth: stacks, Latency: true, Inline: engine == "inline"})
				if err != nil {
					return err
				}
				results = append(results, l)
			}
			row(s.name, engine, number(median(results, func(l latency) float64 { return float64(l.Events) })),
				duration(median(results, func(l latency) float64 { return float64(l.P50) })),
				duration(median(results, func(l latency) float64 { return float64(l.P90) })),
				duration(median(results, func(l latency) float64 { return float64(l.P99) })),
				duration(median(results, func(l latency) float64 { return float64(l.Max) })))
		}
	}
	return nil
}

// timeEvents times the events of one target for a while.
func (b *bench) timeEvents(s scene, o order) (latency, error) {
	t, err := b.start(s)
	if err != nil {
		return latency{}, err
	}
	defer t.Kill()
	result, err := b.watch(s, t, o)
	return result.latency, err
}
