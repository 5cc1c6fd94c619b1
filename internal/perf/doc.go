// Package perf samples the processor time of the threads of a Go process.
//
// The central type is [Sampler]. Where eBPF is not permitted, [Plain] replaces it.
//
// For a Sampler each processor has a perf event with a clock (PERF_COUNT_SW_CPU_CLOCK). An eBPF program that is
// attached to the events accounts the time of the threads of the process, those that start meanwhile included, and copies the
// state of a thread when a sample of it is due: registers, goroutine, and the stacks in use. Package goproc computes call stacks
// from these states.
//
// For a Plain each thread has a perf event on each processor, and new threads are known from records of these events. A sample has the
// registers and the stack. A reader that is bound to the processor reads the goroutine while the thread waits.
//
// File descriptors own all kernel resources. However Loupe ends, the kernel removes the events and the program. The process
// is not stopped, and nothing is written to it.
package perf
