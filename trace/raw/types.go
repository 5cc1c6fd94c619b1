package raw

// A Type is the type of an event as it stands on the wire. V1 versions have a numbering of their own (EvV1...).
type Type uint8

// Event types from Go 1.22 on.
const (
	EvEventBatch          Type = iota + 1 // header of a batch of events of one thread
	EvStacks                              // first in a batch of stacks
	EvStack                               // one stack
	EvStrings                             // first in a batch of strings
	EvString                              // one string
	EvCPUSamples                          // first in a batch of samples of the CPU profiler
	EvCPUSample                           // one sample
	EvFrequency                           // ticks per second
	EvProcsChange                         // GOMAXPROCS
	EvProcStart                           // a thread acquires a P
	EvProcStop                            // a thread releases its P
	EvProcSteal                           // a thread takes the P of another, which is in a system call
	EvProcStatus                          // state of a P when a generation begins
	EvGoCreate                            // a goroutine is created
	EvGoCreateSyscall                     // a goroutine for a thread that C made
	EvGoStart                             // a goroutine begins to run
	EvGoDestroy                           // the running goroutine ends
	EvGoDestroySyscall                    // a goroutine for a thread of C ends
	EvGoStop                              // the running goroutine yields and stays runnable
	EvGoBlock                             // the running goroutine blocks
	EvGoUnblock                           // a goroutine becomes runnable
	EvGoSyscallBegin                      // a system call begins
	EvGoSyscallEnd                        // a system call ends
	EvGoSyscallEndBlocked                 // a system call that had lost its P ends
	EvGoStatus                            // state of a goroutine when a generation begins
	EvSTWBegin                            // the world is stopped
	EvSTWEnd                              // the world is started again
	EvGCActive                            // a collection is under way when a generation begins
	EvGCBegin                             // a collection begins
	EvGCEnd                               // a collection ends
	EvGCSweepActive                       // a P is sweeping when a generation begins
	EvGCSweepBegin                        // a P begins to sweep
	EvGCSweepEnd                          // a P ends sweeping
	EvGCMarkAssistActive                  // a goroutine is assisting when a generation begins
	EvGCMarkAssistBegin                   // a goroutine begins to assist the collector
	EvGCMarkAssistEnd                     // a goroutine ends assisting
	EvHeapAlloc                           // bytes of the live heap
	EvHeapGoal                            // the collector's heap goal in bytes
	EvGoLabel                             // the running goroutine's label
	EvUserTaskBegin                       // trace.NewTask
	EvUserTaskEnd                         // Task.End
	EvUserRegionBegin                     // trace.StartRegion
	EvUserRegionEnd                       // Region.End
	EvUserLog                             // trace.Log

	EvGoSwitch          // switch to another coroutine; from Go 1.23, as are the next four
	EvGoSwitchDestroy   // switch to another coroutine, and the running one ends
	EvGoCreateBlocked   // a goroutine is created and blocked
	EvGoStatusStack     // GoStatus with a stack
	EvExperimentalBatch // header and content of a batch of an experiment

	EvSync          // first in the batch that relates clocks; from Go 1.25, as is the next
	EvClockSnapshot // several clocks at one moment

	EvEndOfGeneration // no more batches of the generation follow; from Go 1.26
)

// Event types of the experiment AllocFree, from Go 1.23 on.
const (
	EvSpan                Type = iota + 128 // a heap span that exists when a generation begins
	EvSpanAlloc                             // a heap span is allocated
	EvSpanFree                              // a heap span is freed
	EvHeapObject                            // a heap object that exists when a generation begins
	EvHeapObjectAlloc                       // a heap object is allocated
	EvHeapObjectFree                        // a heap object is freed
	EvGoroutineStack                        // a goroutine's stack that exists when a generation begins
	EvGoroutineStackAlloc                   // a goroutine's stack is allocated
	EvGoroutineStackFree                    // a goroutine's stack is freed
)

// Event types of V1 versions.
const (
	EvV1Batch             Type = iota + 1 // header of a batch of events of one P
	EvV1Frequency                         // ticks per second
	EvV1Stack                             // one stack
	EvV1Gomaxprocs                        // GOMAXPROCS
	EvV1ProcStart                         // a thread acquires the P
	EvV1ProcStop                          // the thread releases the P
	EvV1GCStart                           // a collection begins
	EvV1GCDone                            // a collection ends
	EvV1STWStart                          // the world is stopped; named GCSTWStart before Go 1.21
	EvV1STWDone                           // the world is started again; named GCSTWDone before Go 1.21
	EvV1GCSweepStart                      // the P begins to sweep
	EvV1GCSweepDone                       // the P ends sweeping
	EvV1GoCreate                          // a goroutine is created
	EvV1GoStart                           // a goroutine begins to run
	EvV1GoEnd                             // the running goroutine ends
	EvV1GoStop                            // the running goroutine blocks forever
	EvV1GoSched                           // the running goroutine yields
	EvV1GoPreempt                         // the running goroutine is preempted
	EvV1GoSleep                           // the running goroutine sleeps
	EvV1GoBlock                           // the running goroutine blocks
	EvV1GoUnblock                         // a goroutine becomes runnable
	EvV1GoBlockSend                       // blocked by a channel send
	EvV1GoBlockRecv                       // blocked by a channel receive
	EvV1GoBlockSelect                     // blocked by a select
	EvV1GoBlockSync                       // blocked by a mutex
	EvV1GoBlockCond                       // blocked by a sync.Cond
	EvV1GoBlockNet                        // blocked by the network
	EvV1GoSysCall                         // a system call begins
	EvV1GoSysExit                         // a system call that had lost its P ended
	EvV1GoSysBlock                        // a system call loses its P
	EvV1GoWaiting                         // a goroutine that is blocked when the trace begins
	EvV1GoInSyscall                       // a goroutine that is in a system call when the trace begins
	EvV1HeapAlloc                         // bytes of the live heap
	EvV1HeapGoal                          // the collector's heap goal in bytes
	EvV1TimerGoroutine                    // the goroutine of timers; until Go 1.13
	EvV1FutileWakeup                      // the goroutine was woken for nothing
	EvV1String                            // one string
	EvV1GoStartLocal                      // GoStart on the P that the goroutine was on before
	EvV1GoUnblockLocal                    // GoUnblock on the P that the goroutine was on before
	EvV1GoSysExitLocal                    // GoSysExit on the P that the goroutine was on before
	EvV1GoStartLabel                      // GoStart with a label
	EvV1GoBlockGC                         // blocked by assisting the collector
	EvV1GCMarkAssistStart                 // a goroutine begins to assist the collector
	EvV1GCMarkAssistDone                  // a goroutine ends assisting
	EvV1UserTaskCreate                    // trace.NewTask
	EvV1UserTaskEnd                       // Task.End
	EvV1UserRegion                        // begin or end of a trace.StartRegion
	EvV1UserLog                           // trace.Log
	EvV1CPUSample                         // sample of the CPU profiler; from Go 1.19
)
