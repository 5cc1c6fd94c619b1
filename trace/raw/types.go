package raw

// A Type is the type of an event. It is the number of the type on the wire. V1 versions have different types (EvV1...).
type Type uint8

// Event types of Go 1.22 and later.
const (
	EvEventBatch          Type = iota + 1 // header of a batch; its events are those of one thread
	EvStacks                              // first event in a batch of stacks
	EvStack                               // a stack
	EvStrings                             // first event in a batch of strings
	EvString                              // a string
	EvCPUSamples                          // first event in a batch of CPU profiler samples
	EvCPUSample                           // a CPU profiler sample
	EvFrequency                           // ticks per second
	EvProcsChange                         // the value of GOMAXPROCS
	EvProcStart                           // a thread acquires a P
	EvProcStop                            // a thread releases its P
	EvProcSteal                           // a thread takes the P of another thread that is in a system call
	EvProcStatus                          // status of a P at the start of a generation
	EvGoCreate                            // a goroutine is created
	EvGoCreateSyscall                     // a goroutine is created for a C thread
	EvGoStart                             // a goroutine starts to run
	EvGoDestroy                           // the running goroutine exits
	EvGoDestroySyscall                    // a goroutine for a C thread ends
	EvGoStop                              // the running goroutine yields and remains runnable
	EvGoBlock                             // the running goroutine blocks
	EvGoUnblock                           // a goroutine becomes runnable
	EvGoSyscallBegin                      // a system call begins
	EvGoSyscallEnd                        // a system call ends
	EvGoSyscallEndBlocked                 // a system call ends, and the thread has lost its P
	EvGoStatus                            // status of a goroutine at the start of a generation
	EvSTWBegin                            // the world is stopped
	EvSTWEnd                              // the world is started again
	EvGCActive                            // a garbage collection is in progress at the start of a generation
	EvGCBegin                             // a garbage collection begins
	EvGCEnd                               // a garbage collection ends
	EvGCSweepActive                       // a P is sweeping at the start of a generation
	EvGCSweepBegin                        // a P starts sweeping
	EvGCSweepEnd                          // a P stops sweeping
	EvGCMarkAssistActive                  // a mark assist is in progress at the start of a generation
	EvGCMarkAssistBegin                   // a mark assist begins
	EvGCMarkAssistEnd                     // a mark assist ends
	EvHeapAlloc                           // size of the live heap in bytes
	EvHeapGoal                            // heap goal of the garbage collector in bytes
	EvGoLabel                             // label of the running goroutine
	EvUserTaskBegin                       // trace.NewTask
	EvUserTaskEnd                         // Task.End
	EvUserRegionBegin                     // trace.StartRegion
	EvUserRegionEnd                       // Region.End
	EvUserLog                             // trace.Log

	EvGoSwitch          // switch to another coroutine; this and the next four types: Go 1.23 and later
	EvGoSwitchDestroy   // switch to another coroutine; the running one exits
	EvGoCreateBlocked   // a goroutine is created in the waiting state
	EvGoStatusStack     // GoStatus with a stack
	EvExperimentalBatch // header and contents of a batch of an experiment

	EvSync          // first event in a batch of clock readings; this and the next type: Go 1.25 and later
	EvClockSnapshot // readings of several clocks at the same moment

	EvEndOfGeneration // end of the batches of a generation; Go 1.26 and later
)

// Event types of the experiment [AllocFree], Go 1.23 and later.
const (
	EvSpan                Type = iota + 128 // a heap span exists at the start of a generation
	EvSpanAlloc                             // a heap span is allocated
	EvSpanFree                              // a heap span is freed
	EvHeapObject                            // a heap object exists at the start of a generation
	EvHeapObjectAlloc                       // a heap object is allocated
	EvHeapObjectFree                        // a heap object is freed
	EvGoroutineStack                        // a goroutine stack exists at the start of a generation
	EvGoroutineStackAlloc                   // a goroutine stack is allocated
	EvGoroutineStackFree                    // a goroutine stack is freed
)

// Event types of V1 versions.
const (
	EvV1Batch             Type = iota + 1 // header of a batch; its events are those of one P
	EvV1Frequency                         // ticks per second
	EvV1Stack                             // a stack
	EvV1Gomaxprocs                        // the value of GOMAXPROCS
	EvV1ProcStart                         // a thread acquires the P
	EvV1ProcStop                          // the thread releases the P
	EvV1GCStart                           // a garbage collection begins
	EvV1GCDone                            // a garbage collection ends
	EvV1STWStart                          // the world is stopped; named GCSTWStart before Go 1.21
	EvV1STWDone                           // the world is started again; named GCSTWDone before Go 1.21
	EvV1GCSweepStart                      // the P starts sweeping
	EvV1GCSweepDone                       // the P stops sweeping
	EvV1GoCreate                          // a goroutine is created
	EvV1GoStart                           // a goroutine starts to run
	EvV1GoEnd                             // the running goroutine exits
	EvV1GoStop                            // the running goroutine blocks forever
	EvV1GoSched                           // the running goroutine yields
	EvV1GoPreempt                         // the running goroutine is preempted
	EvV1GoSleep                           // the running goroutine sleeps
	EvV1GoBlock                           // the running goroutine blocks
	EvV1GoUnblock                         // a goroutine becomes runnable
	EvV1GoBlockSend                       // the running goroutine blocks on a channel send
	EvV1GoBlockRecv                       // the running goroutine blocks on a channel receive
	EvV1GoBlockSelect                     // the running goroutine blocks on a select
	EvV1GoBlockSync                       // the running goroutine blocks on a mutex
	EvV1GoBlockCond                       // the running goroutine blocks on a sync.Cond
	EvV1GoBlockNet                        // the running goroutine blocks on the network
	EvV1GoSysCall                         // a system call begins
	EvV1GoSysExit                         // the end of a system call that lost its P
	EvV1GoSysBlock                        // a system call loses its P
	EvV1GoWaiting                         // a goroutine is blocked at the start of the trace
	EvV1GoInSyscall                       // a goroutine is in a system call at the start of the trace
	EvV1HeapAlloc                         // size of the live heap in bytes
	EvV1HeapGoal                          // heap goal of the garbage collector in bytes
	EvV1TimerGoroutine                    // identifies the timer goroutine; until Go 1.13
	EvV1FutileWakeup                      // the previous wakeup of the goroutine was spurious
	EvV1String                            // a string
	EvV1GoStartLocal                      // GoStart on the P on which the goroutine ran before
	EvV1GoUnblockLocal                    // GoUnblock on the P on which the goroutine ran before
	EvV1GoSysExitLocal                    // GoSysExit on the P on which the goroutine ran before
	EvV1GoStartLabel                      // GoStart with a label
	EvV1GoBlockGC                         // the running goroutine blocks in a mark assist
	EvV1GCMarkAssistStart                 // a mark assist begins
	EvV1GCMarkAssistDone                  // a mark assist ends
	EvV1UserTaskCreate                    // trace.NewTask
	EvV1UserTaskEnd                       // Task.End
	EvV1UserRegion                        // start or end of a region: trace.StartRegion, Region.End
	EvV1UserLog                           // trace.Log
	EvV1CPUSample                         // a CPU profiler sample; Go 1.19 and later
)
