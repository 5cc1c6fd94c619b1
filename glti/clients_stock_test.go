//go:build !loupe_glti

package glti

import (
	"bytes"
	"runtime/trace"
	"testing"
)

// seen registers a callback for GoCreate, and returns a function that reports whether the creation of a goroutine is delivered.
func seen(t *testing.T, env *GLTIEnv) func() bool {
	t.Helper()
	var c recorder
	if _, err := env.Trace.Handle(EvGoCreate, c.add); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		g := started(func() {})
		env.Trace.Flush()
		return len(c.ofG(EvGoCreate, g)) == 1
	}
}

// besides reports whether an agent and the application can trace at the same time in this release.
func besides() bool {
	_, exclusive := newTraceSource().(*startedTrace)
	return !exclusive
}

// TestAgentFirst starts a trace of the application while an agent traces.
func TestAgentFirst(t *testing.T) {
	requireTracing(t)
	failOnReport(t)
	env := NewEnv("agent")
	defer env.Close()
	delivered := seen(t, env)
	if !delivered() {
		t.Error("the agent gets no events")
	}
	var own bytes.Buffer
	err := trace.Start(&own)
	if (err == nil) != besides() {
		t.Fatalf("the application's trace: %v", err)
	}
	if err != nil {
		return // as the limits of the capability state
	}
	if !delivered() {
		t.Error("the agent gets no events while the application traces")
	}
	trace.Stop()
	checkOwnTrace(t, own.Bytes())
	if !delivered() {
		t.Error("the agent gets no events after the application's trace")
	}
}

// TestApplicationFirst registers callbacks while the application has a trace.
func TestApplicationFirst(t *testing.T) {
	requireTracing(t)
	failOnReport(t)
	var own bytes.Buffer
	waitForTrace(t, &own)
	env := NewEnv("agent")
	defer env.Close()
	delivered := seen(t, env)
	if besides() && !delivered() {
		t.Error("the agent gets no events while the application traces")
	}
	trace.Stop()
	checkOwnTrace(t, own.Bytes())
	for !delivered() { // the agent tries again after a second
	}
}

// waitForTrace starts a trace. That of an agent of another test may still be ending.
func waitForTrace(t *testing.T, own *bytes.Buffer) {
	for trace.Start(own) != nil {
		impl.flush()
	}
}

// checkOwnTrace checks that a trace is complete.
func checkOwnTrace(t *testing.T, data []byte) {
	t.Helper()
	records, _, err := convertAll(data, 1<<20)
	if err != nil || len(records) == 0 {
		t.Errorf("the application's trace has %d events: %v", len(records), err)
	}
}
