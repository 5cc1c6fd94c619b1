// Package agent is the node agent: it observes all Go processes of a machine, all the time, and passes on what it learns as metrics,
// spans, logs and profiles.
package agent
