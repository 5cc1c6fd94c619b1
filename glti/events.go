package glti

import "strconv"

// Event is a kind of event. Its number is that of Go's first format of execution traces, which had the events of the proposal.
// Numbers do not change.
type Event uint8

// The events.
const (
	EvProcStart         Event = 5
	EvProcStop          Event = 6
	EvGCStart           Event = 7
	EvGCDone            Event = 8
	EvGCSTWStart        Event = 9
	EvGCSTWDone         Event = 10
	EvGCSweepStart      Event = 11
	EvGCSweepDone       Event = 12
	EvGoCreate          Event = 13
	EvGoStart           Event = 14
	EvGoEnd             Event = 15
	EvGoStop            Event = 16
	EvGoSched           Event = 17
	EvGoPreempt         Event = 18
	EvGoSleep           Event = 19
	EvGoBlock           Event = 20
	EvGoUnblock         Event = 21
	EvGoBlockSend       Event = 22
	EvGoBlockRecv       Event = 23
	EvGoBlockSelect     Event = 24
	EvGoBlockSync       Event = 25
	EvGoBlockCond       Event = 26
	EvGoBlockNet        Event = 27
	EvGoSysCall         Event = 28
	EvGoSysExit         Event = 29
	EvGoSysBlock        Event = 30
	EvGoWaiting         Event = 31
	EvGoInSyscall       Event = 32
	EvHeapAlloc         Event = 33
	EvNextGC            Event = 34
	EvTimerGoroutine    Event = 35
	EvFutileWakeup      Event = 36
	EvString            Event = 37
	EvGoStartLocal      Event = 38
	EvGoUnblockLocal    Event = 39
	EvGoSysExitLocal    Event = 40
	EvGoStartLabel      Event = 41
	EvGoBlockGC         Event = 42
	EvGCMarkAssistStart Event = 43
	EvGCMarkAssistDone  Event = 44
	EvUserTaskCreate    Event = 45
	EvUserTaskEnd       Event = 46
	EvUserRegion        Event = 47
	EvUserLog           Event = 48

	firstEvent = EvProcStart
	endEvent   = EvUserLog + 1
)

// eventInfo is a row of the table of events.
type eventInfo struct {
	name  string // as in RegisterTraceEv<name>
	class Class  // the class in a program with hooks
	// end is set if a record of the event can have an End: the callback of class A is called when the operation is over.
	end bool
	// never is set if no current Go release has the event: registering succeeds, and the callback is never called.
	never bool
	// atRegistration is set if the callback also gets what exists when it is registered: goroutines, strings.
	atRegistration bool
	// fields are the fields of a Record, besides Event, Time and Late, that the event sets.
	fields fields
}

// fields is a set of fields of a Record.
type fields uint8

const (
	fieldG     fields = 1 << iota // G
	fieldBy                       // By, if a goroutine caused the event
	fieldP                        // P
	fieldArg0                     // Args[0]
	fieldArg1                     // Args[1]
	fieldText0                    // Text[0]
	fieldText1                    // Text[1]
)

// events is the one description of the events: registration, delivery, the stock sources, the documentation of Record and the
// tests all use it.
var events = [endEvent]eventInfo{
	EvProcStart:      {name: "ProcStart", class: ClassC, fields: fieldP},
	EvProcStop:       {name: "ProcStop", class: ClassC, fields: fieldP},
	EvGCStart:        {name: "GCStart", class: ClassC},
	EvGCDone:         {name: "GCDone", class: ClassC},
	EvGCSTWStart:     {name: "GCSTWStart", class: ClassC, fields: fieldArg0}, // kind: STWMarkTermination or STWSweepTermination
	EvGCSTWDone:      {name: "GCSTWDone", class: ClassC},
	EvGCSweepStart:   {name: "GCSweepStart", class: ClassC},
	EvGCSweepDone:    {name: "GCSweepDone", class: ClassC, fields: fieldArg0 | fieldArg1}, // bytes swept, bytes reclaimed
	EvGoCreate:       {name: "GoCreate", class: ClassA, fields: fieldG | fieldBy},
	EvGoStart:        {name: "GoStart", class: ClassB, fields: fieldG},
	EvGoEnd:          {name: "GoEnd", class: ClassA, fields: fieldG},
	EvGoStop:         {name: "GoStop", class: ClassB, fields: fieldG},
	EvGoSched:        {name: "GoSched", class: ClassA, end: true, fields: fieldG},
	EvGoPreempt:      {name: "GoPreempt", class: ClassB, fields: fieldG},
	EvGoSleep:        {name: "GoSleep", class: ClassA, end: true, fields: fieldG},
	EvGoBlock:        {name: "GoBlock", class: ClassB, fields: fieldG},
	EvGoUnblock:      {name: "GoUnblock", class: ClassC, fields: fieldG | fieldBy},
	EvGoBlockSend:    {name: "GoBlockSend", class: ClassA, end: true, fields: fieldG},
	EvGoBlockRecv:    {name: "GoBlockRecv", class: ClassA, end: true, fields: fieldG},
	EvGoBlockSelect:  {name: "GoBlockSelect", class: ClassA, end: true, fields: fieldG},
	EvGoBlockSync:    {name: "GoBlockSync", class: ClassA, end: true, fields: fieldG},
	EvGoBlockCond:    {name: "GoBlockCond", class: ClassA, end: true, fields: fieldG},
	EvGoBlockNet:     {name: "GoBlockNet", class: ClassA, end: true, fields: fieldG},
	EvGoSysCall:      {name: "GoSysCall", class: ClassB, fields: fieldG},
	EvGoSysExit:      {name: "GoSysExit", class: ClassB, fields: fieldG},
	EvGoSysBlock:     {name: "GoSysBlock", class: ClassC, fields: fieldG},
	EvGoWaiting:      {name: "GoWaiting", class: ClassA, atRegistration: true, fields: fieldG},
	EvGoInSyscall:    {name: "GoInSyscall", class: ClassA, atRegistration: true, fields: fieldG},
	EvHeapAlloc:      {name: "HeapAlloc", class: ClassC, fields: fieldArg0}, // bytes
	EvNextGC:         {name: "NextGC", class: ClassC, fields: fieldArg0},    // bytes
	EvTimerGoroutine: {name: "TimerGoroutine", class: ClassA, never: true, fields: fieldG},
	EvFutileWakeup:   {name: "FutileWakeup", class: ClassA, never: true, fields: fieldG},
	EvString:         {name: "String", class: ClassA, atRegistration: true, fields: fieldText0},
	EvGoStartLocal:   {name: "GoStartLocal", class: ClassB, fields: fieldG},
	EvGoUnblockLocal: {name: "GoUnblockLocal", class: ClassC, fields: fieldG | fieldBy},
	EvGoSysExitLocal: {name: "GoSysExitLocal", class: ClassB, fields: fieldG},
	EvGoStartLabel:   {name: "GoStartLabel", class: ClassB, fields: fieldG | fieldText0}, // label
	EvGoBlockGC:      {name: "GoBlockGC", class: ClassC, fields: fieldG},

	EvGCMarkAssistStart: {name: "GCMarkAssistStart", class: ClassC, fields: fieldG},
	EvGCMarkAssistDone:  {name: "GCMarkAssistDone", class: ClassC, fields: fieldG},

	EvUserTaskCreate: {name: "UserTaskCreate", class: ClassA, fields: fieldG | fieldArg0 | fieldArg1 | fieldText0}, // task, parent, name
	EvUserTaskEnd:    {name: "UserTaskEnd", class: ClassA, fields: fieldG | fieldArg0},                             // task
	EvUserRegion:     {name: "UserRegion", class: ClassA, fields: fieldG | fieldArg0 | fieldArg1 | fieldText0},     // task, mode, name
	EvUserLog:        {name: "UserLog", class: ClassA, fields: fieldG | fieldArg0 | fieldText0 | fieldText1},       // task, key, value
}

// Kinds of EvGCSTWStart, in Args[0] of its Record.
const (
	STWMarkTermination  = 0 // the end of the concurrent mark phase
	STWSweepTermination = 1 // the begin of a collection
)

// Modes of EvUserRegion, in Args[1] of its Record.
const (
	RegionStart = 0
	RegionEnd   = 1
)

// String returns the name of the event as in RegisterTraceEv<name>.
func (ev Event) String() string {
	if !ev.valid() {
		return "Event(" + strconv.Itoa(int(ev)) + ")"
	}
	return events[ev].name
}

func (ev Event) valid() bool { return ev >= firstEvent && ev < endEvent }

// method returns the name of the method that registers callbacks for the event.
func (ev Event) method() string { return "RegisterTraceEv" + ev.String() }

// Events returns all events in the order of their numbers.
func Events() []Event {
	var all []Event
	for ev := firstEvent; ev < endEvent; ev++ {
		all = append(all, ev)
	}
	return all
}

// Class is where and when the callbacks of a method are called. The package documentation describes the classes.
type Class uint8

// The classes. ClassNone is that of methods without callbacks.
const (
	ClassNone Class = iota
	ClassA
	ClassB
	ClassC
)

// String returns "A", "B", "C", or "" for ClassNone.
func (c Class) String() string {
	switch c {
	case ClassA:
		return "A"
	case ClassB:
		return "B"
	case ClassC:
		return "C"
	}
	return ""
}
