// Package ptrace changes a running process from outside: it stops threads, lets one of them make system calls, maps memory,
// and replaces machine code, so that the process goes on as if nothing had been.
//
// Its central type is Stopped: a process of which one thread (Options.One) or all threads stand still. All that is done
// to it is done on one thread of this process, to which the kernel ties it; when that thread ends, however it ends, the
// kernel lets the process go on. Run has a function executed there; Stop and Release leave the time between them to the
// caller. Maps of memory are made and removed with one thread stopped: a thread that makes calls waits for its turn on a
// busy machine, and only Patch and Resting need the others to stand still meanwhile.
//
// # A tracer that is killed
//
// A thread that makes a system call for us has foreign registers for some microseconds. Were this process killed in them,
// the thread would run on with these. So the instruction behind the call is another one, rt_sigreturn, and the stack
// pointer is at a signal frame with all that the thread had before: registers, signal mask, floating point. Left alone,
// it goes back by itself. The frame and the two instructions lie where no program has anything: behind the end of the
// code in the last page of a segment (see foothold). What was there is put back at the end.
//
// # Rights
//
// The right to trace a process is enough: that of its user, or CAP_SYS_PTRACE. The files mem and fd of /proc/PID open with
// the owner's permissions only; without these the same is done by process_vm_readv, PTRACE_POKEDATA and pidfd_getfd. A
// process with a seccomp filter requires CAP_SYS_ADMIN in addition, unless NewTrial shows that the filter allows the calls.
//
// # What a killed tracer leaves
//
// FindRemains recognizes the code of a foothold, an open descriptor of shared memory, and code that MapProgram has mapped;
// Clean removes them. What else was changed only the caller knows: MapShared has it write that down before the process maps
// anything.
//
// # Signals
//
// Signals are blocked while a thread makes a call and delivered afterwards; one that the thread had stopped for is
// queued again by the kernel, with all it said. System calls that the stop interrupted are restarted by the kernel: the
// thread's last stop is always one behind which the kernel looks for that. epoll_wait and its kin are an exception that
// no tracer can help: they end with EINTR, as they do for every SIGCONT, and the Go runtime expects it.
//
// # Architectures
//
// amd64 and arm64. On arm64 a tracer cannot see whether an interrupted call would have gone on with its remaining time: a
// thread that was used for a call waits for its whole time again.
//
// # Instruction caches
//
// The kernel writes through /proc/PID/mem and PTRACE_POKEDATA by access_remote_vm, which copies by copy_to_user_page: that
// is where architectures without coherent instruction caches clean them. On arm64 it calls flush_ptrace_access
// (arch/arm64/mm/flush.c), which cleans the data cache and invalidates the instruction caches of all processors when
// the mapping is executable. The stopped threads come back from the kernel by an exception return, which is the context
// synchronization that the architecture asks of each processor.
package ptrace
