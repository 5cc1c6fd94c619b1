// Package target observes one process for the node agent.
//
// What is read from the memory of the process costs it nothing: the numbers of its runtime, and its goroutines by state and origin. Events
// cost the process time, because it runs into probes. [Level] says which events are observed. A [Target] chooses the highest level that is
// wanted and that the process can afford, by how often its goroutines are created and run, which the runtime counts itself.
package target
