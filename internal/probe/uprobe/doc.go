// Package uprobe is the engine that observes a process by eBPF programs on uprobes.
//
// The central type is Engine, a probe.Engine. It loads the embedded objects of package csrc with the settings of a plan
// compiled in as constants, attaches each program at its places in the target's executable for that one process, and
// reads the ring buffer that the programs write to.
//
// Everything is held by file descriptors: when Loupe dies, however it dies, the kernel removes the probes.
//
// What the engine needs of the kernel is probed. One uprobe_multi link serves all places of a program where the kernel has
// such links and its version is one that limits them to a process in the right way, which cannot be seen otherwise; single
// uprobes do else. What a fallback costs is said in a warning.
package uprobe
