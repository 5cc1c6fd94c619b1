// Package csrc contains the C sources of the probes, and what is generated from them: eBPF objects and machine code for
// amd64 and arm64, which are embedded, and the Go declarations of the types that probes and their readers share.
//
// Each source file covers one subject: sched.c goroutines and scheduling, syscall.c, chan.c, gc.c, process.c. They use
// go.h, which describes the Go runtime from the point of view of a probe, and one of two platforms: bpf.h for eBPF,
// native.h for machine code that runs in the target, which reads its memory as memory.h says. loupe.h defines the settings and
// the records of probes, lanes.h the memory that machine code uses. The sources contain no constants of the Go runtime.
// Offsets, states and the locations of arguments are settings (struct loupe_config), which package probe fills in.
//
// go generate requires clang-19, llvm-19 and libbpf-dev. The results are committed, so building Loupe requires none of
// them.
package csrc
