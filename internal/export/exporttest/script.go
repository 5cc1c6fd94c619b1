package exporttest

import "github.com/loupe-go/loupe/event"

// Start is the time of the first event of streams, in nanoseconds since the Unix epoch.
const Start = int64(1_700_000_000_000_000_000)

var (
	mainOrigin   = &event.Origin{Start: event.Frame{Func: "main.main", File: "/src/main.go", Line: 10}}
	workerOrigin = &event.Origin{CreatedBy: event.Frame{Func: "main.main", File: "/src/main.go", Line: 12},
		Start: event.Frame{Func: "main.worker", File: "/src/worker.go", Line: 5}}
	mainStack = &event.Stack{Frames: []event.Frame{{Func: "main.main", File: "/src/main.go", Line: 12}}}
	recvStack = &event.Stack{Truncated: true, Frames: []event.Frame{{Func: "runtime.chanrecv1", File: "/go/chan.go", Line: 9},
		{Func: "main.worker", File: "/src/worker.go", Line: 7}}}
)

// Script returns a short stream with every kind of event in it, whose drawing the tests spell out. Times are in steps of 100 ns.
// All kinds are observed.
func Script() []event.Event {
	list := []event.Event{
		{Kind: event.GoStatus, G: 1, TID: 7, P: event.ProcOf(0), State: event.StateRunning, Origin: mainOrigin},
		{Kind: event.GoStatus, G: 2, State: event.StateWaiting, Reason: "IO wait", Value: 5000, Stack: recvStack},
		{Kind: event.GoCreate, G: 18, Parent: 1, TID: 7, Origin: workerOrigin, Stack: mainStack},
		{Kind: event.GoStart, G: 18, TID: 8, P: event.ProcOf(1)},
		{Kind: event.GoBlock, G: 18, TID: 8, Reason: "chan receive", TraceReason: "chan receive", Stack: recvStack},
		{Kind: event.ChanSend, G: 1, TID: 7, Object: 0xc000010000, Stack: mainStack},
		{Kind: event.GoUnblock, G: 18, By: 1, TID: 7, Stack: mainStack},
		{Kind: event.GoStop, G: 1, TID: 7, Reason: event.StopPreempted, Stack: mainStack},
		{Kind: event.GoStart, G: 18, TID: 7, P: event.ProcOf(0)},
		{Kind: event.GoSyscallBegin, G: 18, TID: 7, Stack: recvStack},
		{Kind: event.GoSyscallEnd, G: 18, TID: 7, Value: 100},
		{Kind: event.HeapAlloc, Value: 1 << 20},
		{Kind: event.HeapGoal, Value: 4 << 20},
		{Kind: event.AllocBytes, Value: 1 << 30},
		{Kind: event.AllocObjects, Value: 1 << 24},
		{Kind: event.GCBegin, G: 18},
		{Kind: event.STWBegin, G: 18, Reason: "start GC"},
		{Kind: event.STWEnd},
		{Kind: event.GCEnd},
		{Kind: event.UserTaskBegin, G: 18, Value: 3, Text: "order", Object: 2},
		{Kind: event.UserRegionBegin, G: 18, Value: 3, Text: "pay"},
		{Kind: event.UserRegionBegin, G: 18, Value: 3, Text: "card"},
		{Kind: event.UserLog, G: 18, Reason: "payment", Text: "declined", Value: 3},
		{Kind: event.CPUSample, G: 18, Stack: recvStack},
		{Kind: event.UserRegionEnd, G: 18, Value: 3, Text: "card"},
		{Kind: event.UserRegionEnd, G: 18, Value: 3, Text: "pay"},
		{Kind: event.UserTaskEnd, G: 18, Value: 3},
		{Kind: event.GoUnblock, G: 2}, // by the network poller
		{Kind: event.Lost, Value: 4},
		{Kind: event.GoBlock, G: 2, Reason: "select"}, // its start was lost
		{Kind: event.GoDestroy, G: 18, TID: 7},        // as far as is known, it was running all the time
		{Kind: event.ChanMake, G: 1, Object: 0xc000020000, Value: 8},
		{Kind: event.Select, G: 1, Value: 2},
		{Kind: event.SemAcquire, G: 1, Object: 0xc000030000},
		{Kind: event.GoCreate, G: 19, Parent: 1, State: event.StateWaiting},
		{Kind: event.GoStart, G: 19, TID: 8},
		{Kind: event.GoBlock, G: 19, Reason: "coroutine"},
		{Kind: event.GoStart, G: 19, TID: 8},
		{Kind: event.GoDestroy, G: 19},
		{Kind: event.Exec},
		{Kind: event.GoCreate, G: 1, Origin: mainOrigin},
		{Kind: event.GoStart, G: 1, TID: 7},
	}
	for i := range list {
		list[i].Time = Start + int64(i)*100
		list[i].PID = 1234
	}
	return list
}

// AllKinds is what Script has.
var AllKinds = event.KindsAll.Union(event.KindsMemory, event.KindsUser)

// HostileTexts are texts as a program may make them to do harm.
var HostileTexts = []string{"", `"`, `\`, `"}],"x":[{"`, "a\x00b", "\x1b[31mred\x1b[0m", "\xff\xfe", "bad \xc3 middle", "\u202egnp.exe", "tab\tnewline\n",
	"</script><script>alert(1)</script>", "日本語", "𝄞", "\u2028", "\ufffd", string(make([]byte, 300))}
