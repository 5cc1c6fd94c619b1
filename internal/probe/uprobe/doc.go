// Package uprobe implements an engine that observes a process with eBPF programs on uprobes.
//
// The central type is [Engine], which implements probe.Engine. It loads the embedded objects of package csrc, with the
// settings of a plan compiled in as constants. It attaches each program at its places in the target's executable, for
// this process only, and reads the ring buffer to which the programs write.
//
// File descriptors own all kernel resources. However Loupe ends, the kernel removes the probes.
//
// The engine detects the features of the kernel. A single uprobe_multi link attaches a program at all its places. It is
// used if the kernel supports such links and has a version that correctly limits them to one process, which cannot be
// detected in another way. Otherwise the engine uses single uprobes. A warning states the cost of a fallback.
package uprobe
