package raw

// v1Specs has the events of Go 1.11 to 1.21. Names and arguments are those of internal/trace/parser.go in Go 1.21, with
// what that table implies written out: dt, the stack, and the ID of strings. The stack that a new goroutine begins with
// is new_stack, for GoCreate has another.
var v1Specs = map[Type]sinceSpec{
	EvV1Batch:     {Go111, Spec{Name: "Batch", Args: []string{"p", "ticks"}}},
	EvV1Frequency: {Go111, Spec{Name: "Frequency", Args: []string{"freq"}}},
	EvV1Stack:     {Go111, Spec{Name: "Stack", Args: []string{"id", "siz"}, IsStack: true}},
	EvV1String:    {Go111, Spec{Name: "String", Args: []string{"id"}, HasData: true}},

	EvV1Gomaxprocs: {Go111, timed("Gomaxprocs", "procs", "stack")},
	EvV1ProcStart:  {Go111, timed("ProcStart", "thread")},
	EvV1ProcStop:   {Go111, timed("ProcStop")},

	EvV1GCStart:           {Go111, timed("GCStart", "seq", "stack")},
	EvV1GCDone:            {Go111, timed("GCDone")},
	EvV1STWStart:          {Go111, timed("STWStart", "kindid")},
	EvV1STWDone:           {Go111, timed("STWDone")},
	EvV1GCSweepStart:      {Go111, timed("GCSweepStart", "stack")},
	EvV1GCSweepDone:       {Go111, timed("GCSweepDone", "swept", "reclaimed")},
	EvV1HeapAlloc:         {Go111, timed("HeapAlloc", "mem")},
	EvV1HeapGoal:          {Go111, timed("HeapGoal", "mem")},
	EvV1GCMarkAssistStart: {Go111, timed("GCMarkAssistStart", "stack")},
	EvV1GCMarkAssistDone:  {Go111, timed("GCMarkAssistDone")},

	EvV1GoCreate:       {Go111, timed("GoCreate", "g", "new_stack", "stack")},
	EvV1GoStart:        {Go111, timed("GoStart", "g", "seq")},
	EvV1GoStartLocal:   {Go111, timed("GoStartLocal", "g")},
	EvV1GoStartLabel:   {Go111, timed("GoStartLabel", "g", "seq", "labelid")},
	EvV1GoEnd:          {Go111, timed("GoEnd")},
	EvV1GoStop:         {Go111, timed("GoStop", "stack")},
	EvV1GoSched:        {Go111, timed("GoSched", "stack")},
	EvV1GoPreempt:      {Go111, timed("GoPreempt", "stack")},
	EvV1GoSleep:        {Go111, timed("GoSleep", "stack")},
	EvV1GoBlock:        {Go111, timed("GoBlock", "stack")},
	EvV1GoBlockSend:    {Go111, timed("GoBlockSend", "stack")},
	EvV1GoBlockRecv:    {Go111, timed("GoBlockRecv", "stack")},
	EvV1GoBlockSelect:  {Go111, timed("GoBlockSelect", "stack")},
	EvV1GoBlockSync:    {Go111, timed("GoBlockSync", "stack")},
	EvV1GoBlockCond:    {Go111, timed("GoBlockCond", "stack")},
	EvV1GoBlockNet:     {Go111, timed("GoBlockNet", "stack")},
	EvV1GoBlockGC:      {Go111, timed("GoBlockGC", "stack")},
	EvV1GoUnblock:      {Go111, timed("GoUnblock", "g", "seq", "stack")},
	EvV1GoUnblockLocal: {Go111, timed("GoUnblockLocal", "g", "stack")},
	EvV1GoSysCall:      {Go111, timed("GoSysCall", "stack")},
	EvV1GoSysExit:      {Go111, timed("GoSysExit", "g", "seq", "ts")},
	EvV1GoSysExitLocal: {Go111, timed("GoSysExitLocal", "g", "ts")},
	EvV1GoSysBlock:     {Go111, timed("GoSysBlock")},
	EvV1GoWaiting:      {Go111, timed("GoWaiting", "g")},
	EvV1GoInSyscall:    {Go111, timed("GoInSyscall", "g")},
	EvV1TimerGoroutine: {Go111, Spec{Name: "TimerGoroutine", Args: []string{"g"}}},
	EvV1FutileWakeup:   {Go111, timed("FutileWakeup")},

	EvV1UserTaskCreate: {Go111, timed("UserTaskCreate", "taskid", "pid", "typeid", "stack")},
	EvV1UserTaskEnd:    {Go111, timed("UserTaskEnd", "taskid", "stack")},
	EvV1UserRegion:     {Go111, timed("UserRegion", "taskid", "mode", "typeid", "stack")},
	EvV1UserLog:        {Go111, withData(timed("UserLog", "id", "keyid", "stack"))},
	EvV1CPUSample:      {Go119, timed("CPUSample", "ts", "p", "g", "stack")},
}

// v1Renamed has the names that events had before the version they were renamed in.
var v1Renamed = map[Type]struct {
	until Version
	name  string
}{
	EvV1STWStart: {Go121, "GCSTWStart"},
	EvV1STWDone:  {Go121, "GCSTWDone"},
}

// withData returns a specification with data at its end.
func withData(s Spec) Spec {
	s.HasData = true
	return s
}
