package glti

// Types of timed events, with their arguments besides the time. Strings, such as reasons, are indexes of the generation's table.
const (
	wireProcsChange         = 9  // GOMAXPROCS, stack
	wireProcStart           = 10 // P, sequence
	wireProcStop            = 11
	wireProcSteal           = 12 // P, sequence, thread
	wireProcStatus          = 13 // P, status
	wireGoCreate            = 14 // new goroutine, its stack, stack
	wireGoCreateSyscall     = 15 // new goroutine
	wireGoStart             = 16 // goroutine, sequence
	wireGoDestroy           = 17
	wireGoDestroySyscall    = 18
	wireGoStop              = 19 // reason, stack
	wireGoBlock             = 20 // reason, stack
	wireGoUnblock           = 21 // goroutine, sequence, stack
	wireGoSyscallBegin      = 22 // sequence of the P, stack
	wireGoSyscallEnd        = 23
	wireGoSyscallEndBlocked = 24
	wireGoStatus            = 25 // goroutine, thread, status
	wireSTWBegin            = 26 // kind, stack
	wireSTWEnd              = 27
	wireGCActive            = 28 // sequence
	wireGCBegin             = 29 // sequence, stack
	wireGCEnd               = 30 // sequence
	wireGCSweepActive       = 31 // P
	wireGCSweepBegin        = 32 // stack
	wireGCSweepEnd          = 33 // bytes swept, bytes reclaimed
	wireGCMarkAssistActive  = 34 // goroutine
	wireGCMarkAssistBegin   = 35 // stack
	wireGCMarkAssistEnd     = 36
	wireHeapAlloc           = 37 // bytes
	wireHeapGoal            = 38 // bytes
	wireGoLabel             = 39 // label
	wireUserTaskBegin       = 40 // task, parent, name, stack
	wireUserTaskEnd         = 41 // task, stack
	wireUserRegionBegin     = 42 // task, name, stack
	wireUserRegionEnd       = 43 // task, name, stack
	wireUserLog             = 44 // task, key, value, stack
	wireGoSwitch            = 45 // goroutine, sequence
	wireGoSwitchDestroy     = 46 // goroutine, sequence
	wireGoCreateBlocked     = 47 // new goroutine, its stack, stack
	wireGoStatusStack       = 48 // goroutine, thread, status, stack

	// Events of experiments (GODEBUG=traceallocfree=1), which are skipped.
	wireFirstExperimental = 128
)

const timed = 1

// wireArgs are, for the types of timed events, the constant timed plus the number of arguments besides the time.
var wireArgs = [256]uint8{
	wireProcsChange:         timed + 2,
	wireProcStart:           timed + 2,
	wireProcStop:            timed + 0,
	wireProcSteal:           timed + 3,
	wireProcStatus:          timed + 2,
	wireGoCreate:            timed + 3,
	wireGoCreateSyscall:     timed + 1,
	wireGoStart:             timed + 2,
	wireGoDestroy:           timed + 0,
	wireGoDestroySyscall:    timed + 0,
	wireGoStop:              timed + 2,
	wireGoBlock:             timed + 2,
	wireGoUnblock:           timed + 3,
	wireGoSyscallBegin:      timed + 2,
	wireGoSyscallEnd:        timed + 0,
	wireGoSyscallEndBlocked: timed + 0,
	wireGoStatus:            timed + 3,
	wireSTWBegin:            timed + 2,
	wireSTWEnd:              timed + 0,
	wireGCActive:            timed + 1,
	wireGCBegin:             timed + 2,
	wireGCEnd:               timed + 1,
	wireGCSweepActive:       timed + 1,
	wireGCSweepBegin:        timed + 1,
	wireGCSweepEnd:          timed + 2,
	wireGCMarkAssistActive:  timed + 1,
	wireGCMarkAssistBegin:   timed + 1,
	wireGCMarkAssistEnd:     timed + 0,
	wireHeapAlloc:           timed + 1,
	wireHeapGoal:            timed + 1,
	wireGoLabel:             timed + 1,
	wireUserTaskBegin:       timed + 4,
	wireUserTaskEnd:         timed + 2,
	wireUserRegionBegin:     timed + 3,
	wireUserRegionEnd:       timed + 3,
	wireUserLog:             timed + 4,
	wireGoSwitch:            timed + 2,
	wireGoSwitchDestroy:     timed + 2,
	wireGoCreateBlocked:     timed + 3,
	wireGoStatusStack:       timed + 4,

	wireFirstExperimental + 0: timed + 3, // Span
	wireFirstExperimental + 1: timed + 3, // SpanAlloc
	wireFirstExperimental + 2: timed + 1, // SpanFree
	wireFirstExperimental + 3: timed + 2, // HeapObject
	wireFirstExperimental + 4: timed + 2, // HeapObjectAlloc
	wireFirstExperimental + 5: timed + 1, // HeapObjectFree
	wireFirstExperimental + 6: timed + 2, // GoroutineStack
	wireFirstExperimental + 7: timed + 2, // GoroutineStackAlloc
	wireFirstExperimental + 8: timed + 1, // GoroutineStackFree
}
