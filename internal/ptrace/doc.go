// Package ptrace modifies a running process from the outside. It stops threads, makes system calls in one of them, maps
// memory and replaces machine code. Afterwards the process continues as if nothing had happened.
//
// The central type is [Stopped], a process in which one thread (Options.One) or all threads are stopped. All operations run
// on a single thread of this process, because the kernel ties a tracee to the thread that traces it. When that thread ends,
// for whatever reason, the kernel resumes the tracee. [Run] executes a function on that thread. With [Stop] and
// Stopped.Release, the caller determines how long the process is stopped. Memory is mapped and unmapped while only one
// thread is stopped, because on a busy machine it takes time until the thread that makes the calls is scheduled. Only Patch
// and Resting require all other threads to be stopped as well.
//
// # A killed tracer
//
// While a thread makes a system call for this process, it has foreign registers for some microseconds. If this process were
// killed at that moment, the thread would continue with them. For this reason, the instruction after the system call is
// another system call, rt_sigreturn, and the stack pointer points to a signal frame with the original state of the thread:
// registers, signal mask and floating-point state. If the tracer is gone, the thread restores its own state. The frame and
// the two instructions are in a place that no program uses: after the end of the code in the last page of a segment (see
// foothold). The original contents are restored at the end.
//
// # Permissions
//
// The permission to trace a process is sufficient: the same user, or CAP_SYS_PTRACE. The files mem and fd in /proc/PID can
// only be opened with the permissions of the owner; otherwise the package uses process_vm_readv, PTRACE_POKEDATA and
// pidfd_getfd. A process with a seccomp filter also requires CAP_SYS_ADMIN, unless [NewTrial] shows that the filter permits
// the calls. A filter that kills the process because of one of the calls is an error, because the filter is in force again
// if the tracer is killed.
//
// # What a killed tracer leaves behind
//
// [FindRemains] recognizes the code of a foothold, an open descriptor of shared memory, and code mapped by MapProgram.
// Clean removes them. Only the caller knows about other changes. MapShared calls a function of the caller that records them
// before anything is mapped in the process.
//
// # Signals
//
// Signals are blocked while a thread makes a call, and delivered afterwards. If the thread has stopped because of a signal,
// the kernel queues the signal again with all its information. The kernel restarts system calls that the stop has
// interrupted, because the last stop of the thread is always one after which the kernel checks for that. The exceptions are
// epoll_wait and similar calls. They fail with EINTR, as they do after every SIGCONT. No tracer can prevent this, and the Go
// runtime expects it.
//
// # Architectures
//
// The package supports amd64 and arm64. On arm64, a tracer cannot determine whether an interrupted call would have continued
// with its remaining timeout. The thread that was used for a call waits for its full timeout again.
//
// # Instruction caches
//
// When a tracer writes through /proc/PID/mem or with PTRACE_POKEDATA, the kernel copies the data in access_remote_vm with
// copy_to_user_page. Architectures without coherent instruction caches clean their caches there. On arm64,
// copy_to_user_page calls flush_ptrace_access (arch/arm64/mm/flush.c), which cleans the data cache and, if the mapping is
// executable, invalidates the instruction caches of all processors. The stopped threads return from the kernel with an
// exception return, which is the context synchronization event that the architecture requires on each processor.
package ptrace
