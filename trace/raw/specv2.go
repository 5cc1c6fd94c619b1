package raw

// sinceSpec is a specification and the version that introduced it.
type sinceSpec struct {
	since Version
	spec  Spec
}

// timed returns the specification of an event with a time.
func timed(name string, args ...string) Spec {
	return Spec{Name: name, Args: append([]string{"dt"}, args...), Timed: true}
}

// allocFree returns the specification of an event of the experiment AllocFree.
func allocFree(name string, args ...string) Spec {
	s := timed(name, args...)
	s.Experiment = AllocFree
	return s
}

// v2Specs has the events of Go 1.22 and later, named as `go tool trace -d=wire` prints them. Their source is
// internal/trace/tracev2 in the Go tree (internal/trace/event/go122 before Go 1.25).
//
// What a thread's CPU sample names as p, g and m in Go 1.22's own table is written by that release as m, p and g, as it
// is by all later ones.
var v2Specs = map[Type]sinceSpec{
	EvEventBatch: {Go122, Spec{Name: "EventBatch", Args: []string{"gen", "m", "time", "size"}}},
	EvStacks:     {Go122, Spec{Name: "Stacks"}},
	EvStack:      {Go122, Spec{Name: "Stack", Args: []string{"id", "nframes"}, IsStack: true}},
	EvStrings:    {Go122, Spec{Name: "Strings"}},
	EvString:     {Go122, Spec{Name: "String", Args: []string{"id"}, HasData: true}},
	EvCPUSamples: {Go122, Spec{Name: "CPUSamples"}},
	EvCPUSample:  {Go122, Spec{Name: "CPUSample", Args: []string{"time", "m", "p", "g", "stack"}}},
	EvFrequency:  {Go122, Spec{Name: "Frequency", Args: []string{"freq"}}},

	EvProcsChange: {Go122, timed("ProcsChange", "procs_value", "stack")},
	EvProcStart:   {Go122, timed("ProcStart", "p", "p_seq")},
	EvProcStop:    {Go122, timed("ProcStop")},
	EvProcSteal:   {Go122, timed("ProcSteal", "p", "p_seq", "m")},
	EvProcStatus:  {Go122, timed("ProcStatus", "p", "pstatus")},

	EvGoCreate:            {Go122, timed("GoCreate", "new_g", "new_stack", "stack")},
	EvGoCreateSyscall:     {Go122, timed("GoCreateSyscall", "new_g")},
	EvGoStart:             {Go122, timed("GoStart", "g", "g_seq")},
	EvGoDestroy:           {Go122, timed("GoDestroy")},
	EvGoDestroySyscall:    {Go122, timed("GoDestroySyscall")},
	EvGoStop:              {Go122, timed("GoStop", "reason_string", "stack")},
	EvGoBlock:             {Go122, timed("GoBlock", "reason_string", "stack")},
	EvGoUnblock:           {Go122, timed("GoUnblock", "g", "g_seq", "stack")},
	EvGoSyscallBegin:      {Go122, timed("GoSyscallBegin", "p_seq", "stack")},
	EvGoSyscallEnd:        {Go122, timed("GoSyscallEnd")},
	EvGoSyscallEndBlocked: {Go122, timed("GoSyscallEndBlocked")},
	EvGoStatus:            {Go122, timed("GoStatus", "g", "m", "gstatus")},

	EvSTWBegin:           {Go122, timed("STWBegin", "kind_string", "stack")},
	EvSTWEnd:             {Go122, timed("STWEnd")},
	EvGCActive:           {Go122, timed("GCActive", "gc_seq")},
	EvGCBegin:            {Go122, timed("GCBegin", "gc_seq", "stack")},
	EvGCEnd:              {Go122, timed("GCEnd", "gc_seq")},
	EvGCSweepActive:      {Go122, timed("GCSweepActive", "p")},
	EvGCSweepBegin:       {Go122, timed("GCSweepBegin", "stack")},
	EvGCSweepEnd:         {Go122, timed("GCSweepEnd", "swept_value", "reclaimed_value")},
	EvGCMarkAssistActive: {Go122, timed("GCMarkAssistActive", "g")},
	EvGCMarkAssistBegin:  {Go122, timed("GCMarkAssistBegin", "stack")},
	EvGCMarkAssistEnd:    {Go122, timed("GCMarkAssistEnd")},
	EvHeapAlloc:          {Go122, timed("HeapAlloc", "heapalloc_value")},
	EvHeapGoal:           {Go122, timed("HeapGoal", "heapgoal_value")},

	EvGoLabel:         {Go122, timed("GoLabel", "label_string")},
	EvUserTaskBegin:   {Go122, timed("UserTaskBegin", "task", "parent_task", "name_string", "stack")},
	EvUserTaskEnd:     {Go122, timed("UserTaskEnd", "task", "stack")},
	EvUserRegionBegin: {Go122, timed("UserRegionBegin", "task", "name_string", "stack")},
	EvUserRegionEnd:   {Go122, timed("UserRegionEnd", "task", "name_string", "stack")},
	EvUserLog:         {Go122, timed("UserLog", "task", "key_string", "value_string", "stack")},

	EvGoSwitch:          {Go123, timed("GoSwitch", "g", "g_seq")},
	EvGoSwitchDestroy:   {Go123, timed("GoSwitchDestroy", "g", "g_seq")},
	EvGoCreateBlocked:   {Go123, timed("GoCreateBlocked", "new_g", "new_stack", "stack")},
	EvGoStatusStack:     {Go123, timed("GoStatusStack", "g", "m", "gstatus", "stack")},
	EvExperimentalBatch: {Go123, Spec{Name: "ExperimentalBatch", Args: []string{"exp", "gen", "m", "time"}, HasData: true}},

	EvSync:            {Go125, Spec{Name: "Sync"}},
	EvClockSnapshot:   {Go125, timed("ClockSnapshot", "mono", "sec", "nsec")},
	EvEndOfGeneration: {Go126, Spec{Name: "EndOfGeneration"}},

	EvSpan:                {Go123, allocFree("Span", "id", "npages_value", "kindclass")},
	EvSpanAlloc:           {Go123, allocFree("SpanAlloc", "id", "npages_value", "kindclass")},
	EvSpanFree:            {Go123, allocFree("SpanFree", "id")},
	EvHeapObject:          {Go123, allocFree("HeapObject", "id", "type")},
	EvHeapObjectAlloc:     {Go123, allocFree("HeapObjectAlloc", "id", "type")},
	EvHeapObjectFree:      {Go123, allocFree("HeapObjectFree", "id")},
	EvGoroutineStack:      {Go123, allocFree("GoroutineStack", "id", "order")},
	EvGoroutineStackAlloc: {Go123, allocFree("GoroutineStackAlloc", "id", "order")},
	EvGoroutineStackFree:  {Go123, allocFree("GoroutineStackFree", "id")},
}
