// Package csrc holds the sources of the probes, in C, and what is generated from them: eBPF objects and machine code for
// amd64 and arm64, embedded here, and the Go side of the types that probes and their readers share.
//
// There is one file for each concern: sched.c for the life of goroutines, syscall.c, chan.c, gc.c, process.c. They are
// written against go.h (the Go runtime as a probe sees it) and the machine below it: bpf.h for eBPF, native.h for machine
// code that runs within the target. loupe.h is what leaves and reaches a probe, lanes.h the memory that machine code works
// in. A probe holds no constant of the Go runtime: offsets, states and places of arguments come to it as settings
// (struct loupe_config), which package probe fills.
//
// go generate needs clang-19, llvm-19 and libbpf-dev; the results are committed, so building Loupe needs none of them.
package csrc
