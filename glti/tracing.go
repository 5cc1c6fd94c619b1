package glti

import "fmt"

// onTime registers a callback that receives the time alone.
func (env *TracingEnv) onTime(ev Event, cb func(ts int64)) error {
	return env.on(ev, cb == nil, func(r Record) { cb(r.Time) })
}

// onG registers a callback that receives the goroutine.
func (env *TracingEnv) onG(ev Event, cb func(ts int64, gp interface{})) error {
	return env.on(ev, cb == nil, func(r Record) { cb(r.Time, r.G) })
}

// onP registers a callback that receives the processor.
func (env *TracingEnv) onP(ev Event, cb func(ts int64, p interface{})) error {
	return env.on(ev, cb == nil, func(r Record) { cb(r.Time, r.P) })
}

// onSize registers a callback that receives a number of bytes.
func (env *TracingEnv) onSize(ev Event, cb func(ts int64, bytes uint64)) error {
	return env.on(ev, cb == nil, func(r Record) { cb(r.Time, r.Args[0]) })
}

// on registers a callback of a Register method.
func (env *TracingEnv) on(ev Event, isNil bool, call func(Record)) error {
	if isNil {
		return fmt.Errorf("glti: %s: %w", ev.method(), errNilCallback)
	}
	_, err := env.register(ev, ev.method(), call)
	return err
}

// RegisterTraceEvFutileWakeup registers a callback for an event of old releases. No release of Go that this package
// supports has this event: registering succeeds, and cb is never called.
func (env *TracingEnv) RegisterTraceEvFutileWakeup(cb func(ts int64, gp interface{})) error {
	return env.onG(EvFutileWakeup, cb)
}

// RegisterTraceEvGCDone registers cb to be called when a garbage collection is done. Class C.
func (env *TracingEnv) RegisterTraceEvGCDone(cb func(ts int64)) error {
	return env.onTime(EvGCDone, cb)
}

// RegisterTraceEvGCMarkAssistDone registers cb to be called when a goroutine that allocates ends to mark for the
// garbage collector. Class C: the callback could need a lock that this goroutine has.
func (env *TracingEnv) RegisterTraceEvGCMarkAssistDone(cb func(ts int64)) error {
	return env.onTime(EvGCMarkAssistDone, cb)
}

// RegisterTraceEvGCMarkAssistStart registers cb to be called when a goroutine that allocates starts to mark for the
// garbage collector. Class C: the callback could need a lock that this goroutine has.
func (env *TracingEnv) RegisterTraceEvGCMarkAssistStart(cb func(ts int64)) error {
	return env.onTime(EvGCMarkAssistStart, cb)
}

// RegisterTraceEvGCSTWDone registers cb to be called when the world has started again after a garbage collection had
// stopped it. Class C.
func (env *TracingEnv) RegisterTraceEvGCSTWDone(cb func(ts int64)) error {
	return env.onTime(EvGCSTWDone, cb)
}

// RegisterTraceEvGCSTWStart registers cb to be called when a garbage collection stops the world. gcKind is
// [STWMarkTermination] or [STWSweepTermination]. Class C.
func (env *TracingEnv) RegisterTraceEvGCSTWStart(cb func(ts int64, gcKind int)) error {
	return env.on(EvGCSTWStart, cb == nil, func(r Record) { cb(r.Time, int(r.Args[0])) })
}

// RegisterTraceEvGCStart registers cb to be called when a garbage collection starts. Class C: most collections start where memory
// is allocated, and the callback could need a lock that this goroutine has.
func (env *TracingEnv) RegisterTraceEvGCStart(cb func(ts int64)) error {
	return env.onTime(EvGCStart, cb)
}

// RegisterTraceEvGCSweepDone registers cb to be called when a processor ends to sweep. Class C.
func (env *TracingEnv) RegisterTraceEvGCSweepDone(cb func(ts int64, bytesSwept, bytesReclaimed uintptr)) error {
	return env.on(EvGCSweepDone, cb == nil, func(r Record) { cb(r.Time, uintptr(r.Args[0]), uintptr(r.Args[1])) })
}

// RegisterTraceEvGCSweepStart registers cb to be called when a processor starts to sweep. Class C.
func (env *TracingEnv) RegisterTraceEvGCSweepStart(cb func(ts int64)) error {
	return env.onTime(EvGCSweepStart, cb)
}

// RegisterTraceEvGoBlock registers cb to be called when a goroutine blocks for a reason that no other GoBlock event
// describes. Class B; cb is called from a buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoBlock(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlock, cb)
}

// RegisterTraceEvGoBlockCond registers cb to be called when a goroutine blocks on a sync.Cond. Class A.
func (env *TracingEnv) RegisterTraceEvGoBlockCond(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlockCond, cb)
}

// RegisterTraceEvGoBlockGC registers cb to be called when a goroutine that allocates blocks because of the garbage
// collector. Class C.
func (env *TracingEnv) RegisterTraceEvGoBlockGC(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlockGC, cb)
}

// RegisterTraceEvGoBlockNet registers cb to be called when a goroutine blocks on the network, or on another file that
// the poller waits for. Class A.
func (env *TracingEnv) RegisterTraceEvGoBlockNet(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlockNet, cb)
}

// RegisterTraceEvGoBlockRecv registers cb to be called when a goroutine blocks on a channel receive. Class A.
func (env *TracingEnv) RegisterTraceEvGoBlockRecv(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlockRecv, cb)
}

// RegisterTraceEvGoBlockSelect registers cb to be called when a goroutine blocks on a select statement. Class A.
func (env *TracingEnv) RegisterTraceEvGoBlockSelect(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlockSelect, cb)
}

// RegisterTraceEvGoBlockSend registers cb to be called when a goroutine blocks on a channel send. Class A.
func (env *TracingEnv) RegisterTraceEvGoBlockSend(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlockSend, cb)
}

// RegisterTraceEvGoBlockSync registers cb to be called when a goroutine blocks on a Mutex, RWMutex, WaitGroup or
// another semaphore. Class A.
func (env *TracingEnv) RegisterTraceEvGoBlockSync(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoBlockSync, cb)
}

// RegisterTraceEvGoCreate registers cb to be called when a goroutine is created. gp is the new goroutine. Class A.
func (env *TracingEnv) RegisterTraceEvGoCreate(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoCreate, cb)
}

// RegisterTraceEvGoEnd registers cb to be called when a goroutine ends. Class A.
func (env *TracingEnv) RegisterTraceEvGoEnd(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoEnd, cb)
}

// RegisterTraceEvGoInSyscall registers cb to be called once for each goroutine that is in a system call when the
// callback is registered. ts is about the time of the registration. Class A.
func (env *TracingEnv) RegisterTraceEvGoInSyscall(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoInSyscall, cb)
}

// RegisterTraceEvGoPreempt registers cb to be called when a goroutine is preempted. Class B; cb is called from a
// buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoPreempt(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoPreempt, cb)
}

// RegisterTraceEvGoSched registers cb to be called when a goroutine calls runtime.Gosched. Class A.
func (env *TracingEnv) RegisterTraceEvGoSched(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoSched, cb)
}

// RegisterTraceEvGoSleep registers cb to be called when a goroutine calls time.Sleep. Class A.
func (env *TracingEnv) RegisterTraceEvGoSleep(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoSleep, cb)
}

// RegisterTraceEvGoStart registers cb to be called when a goroutine starts running, on any processor. Class B; cb is
// called from a buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoStart(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoStart, cb)
}

// RegisterTraceEvGoStartLabel registers cb to be called when a goroutine of the runtime starts running with a label.
// The callbacks of GoStart are called as well. Class B; cb is called from a buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoStartLabel(cb func(ts int64, gp interface{}, label string)) error {
	return env.on(EvGoStartLabel, cb == nil, func(r Record) { cb(r.Time, r.G, r.Text[0]) })
}

// RegisterTraceEvGoStartLocal registers cb to be called when a goroutine starts running on the processor on which its
// last event was. The callbacks of GoStart are called as well. Class B; cb is called from a buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoStartLocal(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoStartLocal, cb)
}

// RegisterTraceEvGoStop registers cb to be called when a goroutine blocks forever, as in select{}. Class B; cb is
// called from a buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoStop(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoStop, cb)
}

// RegisterTraceEvGoSysBlock registers cb to be called when a system call takes so long that the runtime takes its
// processor. Class C.
func (env *TracingEnv) RegisterTraceEvGoSysBlock(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoSysBlock, cb)
}

// RegisterTraceEvGoSysCall registers cb to be called when a goroutine enters a system call. Class B; cb is called from
// a buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoSysCall(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoSysCall, cb)
}

// RegisterTraceEvGoSysExit registers cb to be called when a goroutine returns from a system call. Class B; cb is called
// from a buffer, as in class C.
func (env *TracingEnv) RegisterTraceEvGoSysExit(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoSysExit, cb)
}

// RegisterTraceEvGoSysExitLocal registers cb to be called when a goroutine returns from a system call on the processor
// on which it entered it. The callbacks of GoSysExit are called as well. Class B; cb is called from a buffer, as in
// class C.
func (env *TracingEnv) RegisterTraceEvGoSysExitLocal(cb func(ts int64)) error {
	return env.onTime(EvGoSysExitLocal, cb)
}

// RegisterTraceEvGoUnblock registers cb to be called when a goroutine is unblocked. gp is the goroutine that can run
// again. Class C: the callback could need a lock that the goroutine has which unblocked it.
func (env *TracingEnv) RegisterTraceEvGoUnblock(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoUnblock, cb)
}

// RegisterTraceEvGoUnblockLocal registers cb to be called when a goroutine is unblocked on the processor on which its
// last event was. The callbacks of GoUnblock are called as well. Class C.
func (env *TracingEnv) RegisterTraceEvGoUnblockLocal(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoUnblockLocal, cb)
}

// RegisterTraceEvGoWaiting registers cb to be called once for each goroutine that is blocked when the callback is
// registered. ts is about the time of the registration. Class A.
func (env *TracingEnv) RegisterTraceEvGoWaiting(cb func(ts int64, gp interface{})) error {
	return env.onG(EvGoWaiting, cb)
}

// RegisterTraceEvHeapAlloc registers cb to be called when the size of the live heap changes. heapAlloc is in bytes.
// Class C.
func (env *TracingEnv) RegisterTraceEvHeapAlloc(cb func(ts int64, heapAlloc uint64)) error {
	return env.onSize(EvHeapAlloc, cb)
}

// RegisterTraceEvNextGC registers cb to be called when the goal of the next garbage collection changes. nextGc is in
// bytes. Class C.
func (env *TracingEnv) RegisterTraceEvNextGC(cb func(ts int64, nextGc uint64)) error {
	return env.onSize(EvNextGC, cb)
}

// RegisterTraceEvProcStart registers cb to be called when a processor (P) starts running on a thread. p is a [P]. Class
// C.
func (env *TracingEnv) RegisterTraceEvProcStart(cb func(ts int64, p interface{})) error {
	return env.onP(EvProcStart, cb)
}

// RegisterTraceEvProcStop registers cb to be called when a processor (P) stops running on a thread. p is a [P]. Class
// C.
func (env *TracingEnv) RegisterTraceEvProcStop(cb func(ts int64, p interface{})) error {
	return env.onP(EvProcStop, cb)
}

// RegisterTraceEvString registers cb to be called when the tracer adds a string to its table: the name of a task or
// region, or the key or value of a log, when it is used for the first time. The tracer of a stock program also has names of
// functions and wait reasons. A string can be added again after many others. When cb is registered, it is also called for the strings that
// are in the table. Class A.
func (env *TracingEnv) RegisterTraceEvString(cb func(ts int64, val string)) error {
	return env.on(EvString, cb == nil, func(r Record) { cb(r.Time, r.Text[0]) })
}

// RegisterTraceEvTimerGoroutine registers a callback for an event of old releases. No release of Go that this package
// supports has this event: registering succeeds, and cb is never called.
func (env *TracingEnv) RegisterTraceEvTimerGoroutine(cb func(ts int64, gp interface{})) error {
	return env.onG(EvTimerGoroutine, cb)
}

// RegisterTraceEvUserLog registers cb to be called when the program logs to a trace (runtime/trace.Log). Class A.
func (env *TracingEnv) RegisterTraceEvUserLog(cb func(ts int64, taskId uint64, key, value string)) error {
	return env.on(EvUserLog, cb == nil, func(r Record) { cb(r.Time, r.Args[0], r.Text[0], r.Text[1]) })
}

// RegisterTraceEvUserRegion registers cb to be called when a region starts or ends (runtime/trace.WithRegion). mode is
// [RegionStart] or [RegionEnd]. Class A.
func (env *TracingEnv) RegisterTraceEvUserRegion(cb func(ts int64, taskId uint64, mode uint8, name string)) error {
	return env.on(EvUserRegion, cb == nil, func(r Record) { cb(r.Time, r.Args[0], uint8(r.Args[1]), r.Text[0]) })
}

// RegisterTraceEvUserTaskCreate registers cb to be called when the program creates a task (runtime/trace.NewTask).
// Class A.
func (env *TracingEnv) RegisterTraceEvUserTaskCreate(cb func(ts int64, taskId, parentTaskId uint64, name string)) error {
	return env.on(EvUserTaskCreate, cb == nil, func(r Record) { cb(r.Time, r.Args[0], r.Args[1], r.Text[0]) })
}

// RegisterTraceEvUserTaskEnd registers cb to be called when a task ends (runtime/trace.Task.End). Class A.
func (env *TracingEnv) RegisterTraceEvUserTaskEnd(cb func(ts int64, taskId uint64)) error {
	return env.on(EvUserTaskEnd, cb == nil, func(r Record) { cb(r.Time, r.Args[0]) })
}
