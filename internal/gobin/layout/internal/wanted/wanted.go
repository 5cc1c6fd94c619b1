// Package wanted lists the structs, constants and string arrays of the Go runtime that package layout provides, and
// gives each of them one name for all releases.
//
// It only contains data. The reader of a target's DWARF and the generator of the embedded table both use it, so that a
// name means the same in both.
package wanted

import (
	"slices"
	"strings"
)

// Struct names one struct type.
type Struct struct {
	Name string // what Loupe calls it

	// Also are the names that other releases use for the same struct.
	Also []string

	// Variable is the package variable whose type it is, for releases in which the type has no name.
	Variable string

	// Shallow keeps nested structs as one field each: for structs whose inner parts are large and not looked at.
	Shallow bool

	// Fields maps a field's path in other releases to the path that Loupe uses. What is before the last dot is Loupe's.
	Fields map[string]string
}

// Structs lists the structs that are known. runtime2.go holds most of them; the others are in the file named for the
// concept (chan.go, sema.go, symtab.go, mheap.go, mgc.go, ...).
var Structs = []Struct{
	// Goroutines, threads and processors.
	{Name: "runtime.g"},
	{Name: "runtime.m"},
	{Name: "runtime.p"},
	{Name: "runtime.schedt"},
	{Name: "runtime.gobuf"},
	{Name: "runtime.stack"},
	{Name: "runtime.coro"},
	{Name: "runtime.synctestGroup"},
	{Name: "runtime.synctestBubble"},
	{Name: "runtime._panic"},

	// What goroutines wait for.
	{Name: "runtime.hchan"},
	{Name: "runtime.sudog"},
	{Name: "runtime.semaRoot"},
	{Name: "runtime.semTable", Variable: "runtime.semtable"},
	{Name: "runtime.timer"},
	{Name: "runtime.timers"},
	{Name: "runtime.pollDesc"},

	// Code and its tables.
	{Name: "runtime.moduledata"},
	{Name: "runtime._func", Fields: map[string]string{"entryoff": "entryOff", "nameoff": "nameOff"}},
	{Name: "runtime.pcHeader"},
	{Name: "runtime.inlinedCall"},

	// Values.
	{Name: "runtime._type", Also: []string{"internal/abi.Type"}, Fields: map[string]string{
		"Size_": "size", "PtrBytes": "ptrdata", "Hash": "hash", "TFlag": "tflag", "Align_": "align",
		"FieldAlign_": "fieldAlign", "fieldalign": "fieldAlign", "Kind_": "kind", "Equal": "equal", "GCData": "gcdata",
		"Str": "str", "PtrToThis": "ptrToThis",
	}},
	{Name: "runtime.itab", Also: []string{"internal/abi.ITab"}, Fields: map[string]string{
		"Inter": "inter", "Type": "_type", "Hash": "hash", "Fun": "fun",
	}},
	{Name: "runtime.hmap"},
	{Name: "runtime/pprof.label", Also: []string{"internal/runtime/pprof/label.Label"}, Fields: map[string]string{
		"Key": "key", "Value": "value",
	}},
	{Name: "runtime/pprof.labelMap", Fields: map[string]string{"Set": "LabelSet", "LabelSet.List": "LabelSet.list"}},

	// Memory.
	{Name: "runtime.mspan"},
	{Name: "runtime.mcache"},
	{Name: "runtime.mheap", Shallow: true},
	{Name: "runtime.heapArena", Shallow: true},
	{Name: "runtime.mcentral", Shallow: true},
	{Name: "runtime.fixalloc"},
	{Name: "runtime.mstats"},
	{Name: "runtime.heapStatsDelta"},
	{Name: "runtime.gcControllerState"},
	{Name: "runtime.workType", Variable: "runtime.work", Fields: map[string]string{
		"cpuStats.GCAssistTime": "cpuStats.gcAssistTime", "cpuStats.GCDedicatedTime": "cpuStats.gcDedicatedTime",
		"cpuStats.GCIdleTime": "cpuStats.gcIdleTime", "cpuStats.GCPauseTime": "cpuStats.gcPauseTime",
		"cpuStats.GCTotalTime": "cpuStats.gcTotalTime", "cpuStats.ScavengeAssistTime": "cpuStats.scavengeAssistTime",
		"cpuStats.ScavengeBgTime": "cpuStats.scavengeBgTime", "cpuStats.ScavengeTotalTime": "cpuStats.scavengeTotalTime",
		"cpuStats.IdleTime": "cpuStats.idleTime", "cpuStats.UserTime": "cpuStats.userTime", "cpuStats.TotalTime": "cpuStats.totalTime",
	}},

	// The profiles that the runtime keeps (mprof.go), the locks that guard them, and the clock of their times (runtime.go).
	{Name: "runtime.bucket"},
	{Name: "runtime.memRecord"},
	{Name: "runtime.memRecordCycle"},
	{Name: "runtime.blockRecord"},
	{Name: "runtime.mProfType", Variable: "runtime.mProf"},
	{Name: "runtime.mProfCycleHolder"},
	{Name: "runtime.mutex"},
	{Name: "runtime.ticksType", Variable: "runtime.ticks"},
}

// StructNamed returns the struct that a release calls by the given name.
func StructNamed(name string) (Struct, bool) {
	for _, s := range Structs {
		if s.Name == name || slices.Contains(s.Also, name) {
			return s, true
		}
	}
	return Struct{}, false
}

// StructOfVariable returns the struct that is known as a package variable's type.
func StructOfVariable(name string) (Struct, bool) {
	for _, s := range Structs {
		if s.Variable != "" && s.Variable == name {
			return s, true
		}
	}
	return Struct{}, false
}

// Field returns Loupe's path of a field, given that with its name in a release.
func (s Struct) Field(path string) string {
	if known, ok := s.Fields[path]; ok {
		return known
	}
	return path
}

// IsLeaf tells whether a struct type stands for the single value it wraps: the types of the atomic packages.
func IsLeaf(typeName string) bool {
	typeName, _, _ = strings.Cut(typeName, "[") // type arguments, with packages of their own
	pkg, _, ok := strings.Cut(typeName[strings.LastIndexByte(typeName, '/')+1:], ".")
	return ok && pkg == "atomic" && !strings.Contains(typeName, " ") // an unnamed struct's name lists its fields
}

// Strings lists the runtime's arrays of strings that are known.
var Strings = []string{
	WaitReasons,
	"runtime.traceBlockReasonStrings",
	"runtime.traceGoStopReasonStrings",
	"runtime.stwReasonStrings",
}

// WaitReasons is the array of the texts that a traceback shows for goroutines that wait, by runtime.waitReason.
const WaitReasons = "runtime.waitReasonStrings"
