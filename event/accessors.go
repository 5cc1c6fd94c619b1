package event

import "time"

// The methods in this file return the fields of an event that mean different things for different kinds, by their meaning.
// For other kinds they return the zero value.

// Wait returns the duration of a wait: for GoStatus until now, for GoBlock the whole wait if only long waits are observed.
// Zero means unknown.
func (e *Event) Wait() time.Duration {
	if e.Kind != GoBlock && e.Kind != GoStatus {
		return 0
	}
	return time.Duration(e.Value)
}

// SyscallTime returns the duration of the system call that a GoSyscallEnd ends. Zero means unknown.
func (e *Event) SyscallTime() time.Duration { return time.Duration(e.valueOf(GoSyscallEnd)) }

// Capacity returns the capacity of the channel of a ChanMake.
func (e *Event) Capacity() int64 { return e.valueOf(ChanMake) }

// Cases returns the number of cases of a Select.
func (e *Event) Cases() int64 { return e.valueOf(Select) }

// HeapBytes returns the size of the heap of a HeapAlloc.
func (e *Event) HeapBytes() int64 { return e.valueOf(HeapAlloc) }

// HeapGoalBytes returns the size of a HeapGoal.
func (e *Event) HeapGoalBytes() int64 { return e.valueOf(HeapGoal) }

// AllocatedBytes returns the number of bytes of an AllocBytes.
func (e *Event) AllocatedBytes() int64 { return e.valueOf(AllocBytes) }

// AllocatedObjects returns the number of objects of an AllocObjects.
func (e *Event) AllocatedObjects() int64 { return e.valueOf(AllocObjects) }

// Missing returns the number of events that were lost before a Lost event. Zero means unknown.
func (e *Event) Missing() int64 { return e.valueOf(Lost) }

// Sampled returns how many of 2^32 goroutines are sampled after a Resample. Goroutines that were sampled before and no longer are have not
// ended: the stream has no further events of them. Goroutines that begin to be sampled have a GoStatus, which follows.
func (e *Event) Sampled() int64 { return e.valueOf(Resample) }

// Task returns the ID of the runtime/trace task of an event, or 0 if there is none.
func (e *Event) Task() int64 {
	switch e.Kind {
	case UserTaskBegin, UserTaskEnd, UserRegionBegin, UserRegionEnd, UserLog:
		return e.Value
	}
	return 0
}

// ParentTask returns the ID of the parent of the task of a UserTaskBegin, or 0 if there is none.
func (e *Event) ParentTask() uint64 {
	if e.Kind != UserTaskBegin {
		return 0
	}
	return e.Object
}

// Address returns the address of the channel, lock or semaphore of an event, or 0 if unknown.
func (e *Event) Address() uint64 {
	if e.Kind == UserTaskBegin {
		return 0
	}
	return e.Object
}

// WaitReason returns the wait reason of the goroutine of a GoBlock or GoStatus.
func (e *Event) WaitReason() string {
	if e.Kind != GoBlock && e.Kind != GoStatus {
		return ""
	}
	return e.Reason
}

// StopReason returns the reason of a GoStop: StopGosched or StopPreempted.
func (e *Event) StopReason() string { return e.reasonOf(GoStop) }

// STWReason returns the reason for stopping the world of an STWBegin, or "" if the Go release does not record one.
func (e *Event) STWReason() string { return e.reasonOf(STWBegin) }

// Category returns the category of a UserLog.
func (e *Event) Category() string { return e.reasonOf(UserLog) }

func (e *Event) valueOf(k Kind) int64 {
	if e.Kind != k {
		return 0
	}
	return e.Value
}

func (e *Event) reasonOf(k Kind) string {
	if e.Kind != k {
		return ""
	}
	return e.Reason
}
