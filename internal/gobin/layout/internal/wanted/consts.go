package wanted

import "strings"

// family is a group of constants whose names start alike. In the runtime's own files the names are those of Loupe; since
// Go 1.21 some families live in internal/abi under other names.
type family struct {
	prefix    string // of the name in the release
	canonical string // what stands for the prefix in Loupe's name
	lower     bool   // the letter after the prefix becomes a small one
}

// families is ordered: the first prefix that fits decides.
var families = []family{
	{prefix: "runtime.funcID_", canonical: "runtime.funcID_"},
	{prefix: "internal/abi.FuncID_", canonical: "runtime.funcID_"},
	{prefix: "internal/abi.FuncID", canonical: "runtime.funcID_", lower: true},
	{prefix: "internal/abi.FuncFlag", canonical: "runtime.funcFlag_", lower: true},
	{prefix: "runtime._PCDATA_", canonical: "runtime._PCDATA_"},
	{prefix: "internal/abi.PCDATA_", canonical: "runtime._PCDATA_"},
	{prefix: "runtime._FUNCDATA_", canonical: "runtime._FUNCDATA_"},
	{prefix: "internal/abi.FUNCDATA_", canonical: "runtime._FUNCDATA_"},
	{prefix: "runtime.waitReason", canonical: "runtime.waitReason"},
	{prefix: "runtime.traceBlock", canonical: "runtime.traceBlock"},
	{prefix: "runtime.traceGoStop", canonical: "runtime.traceGoStop"},
	{prefix: "runtime.stw", canonical: "runtime.stw"},
	{prefix: "runtime._Gscan", canonical: "runtime._Gscan"},
}

// single maps the names of constants outside of the families to Loupe's name.
var single = map[string]string{
	"runtime._Gidle":            "runtime._Gidle",
	"runtime._Grunnable":        "runtime._Grunnable",
	"runtime._Grunning":         "runtime._Grunning",
	"runtime._Gsyscall":         "runtime._Gsyscall",
	"runtime._Gwaiting":         "runtime._Gwaiting",
	"runtime._Gmoribund_unused": "runtime._Gmoribund_unused",
	"runtime._Gdead":            "runtime._Gdead",
	"runtime._Genqueue_unused":  "runtime._Genqueue_unused",
	"runtime._Gcopystack":       "runtime._Gcopystack",
	"runtime._Gpreempted":       "runtime._Gpreempted",
	"runtime._Gleaked":          "runtime._Gleaked",
	"runtime._Gdeadextra":       "runtime._Gdeadextra",
	"runtime._Gscan":            "runtime._Gscan",
	"runtime._Pidle":            "runtime._Pidle",
	"runtime._Prunning":         "runtime._Prunning",
	"runtime._Psyscall":         "runtime._Psyscall",
	"runtime._Psyscall_unused":  "runtime._Psyscall_unused",
	"runtime._Pgcstop":          "runtime._Pgcstop",
	"runtime._Pdead":            "runtime._Pdead",
	"runtime.funcFlag_TOPFRAME": "runtime.funcFlag_topFrame",
	"runtime.funcFlag_SPWRITE":  "runtime.funcFlag_sPWrite",
	"runtime.funcFlag_ASM":      "runtime.funcFlag_asm",
	"runtime.semTabSize":        "runtime.semTabSize",
	"runtime._PageSize":         "runtime._PageSize",
	"runtime.pageSize":          "runtime._PageSize",
	"runtime.heapArenaBytes":    "runtime.heapArenaBytes",
	"runtime._StackGuard":       "runtime._StackGuard",
	"runtime.stackGuard":        "runtime._StackGuard",
	"runtime.gTrackingPeriod":   "runtime.gTrackingPeriod",
	"runtime._MSpanInUse":       "runtime.mSpanInUse",
	"runtime.mSpanInUse":        "runtime.mSpanInUse",
	"runtime.mSpanManual":       "runtime.mSpanManual",
	"runtime.mSpanDead":         "runtime.mSpanDead",

	"runtime.memoryLimitHeapGoalHeadroom":        "runtime.memoryLimitMinHeapGoalHeadroom",
	"runtime.memoryLimitMinHeapGoalHeadroom":     "runtime.memoryLimitMinHeapGoalHeadroom",
	"runtime.memoryLimitHeapGoalHeadroomPercent": "runtime.memoryLimitHeapGoalHeadroomPercent",
}

// Const returns Loupe's name of a constant; false when the constant is not among those known.
func Const(name string) (string, bool) {
	if known, ok := single[name]; ok {
		return known, true
	}
	for _, f := range families {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok && rest != "" {
			if f.lower {
				rest = strings.ToLower(rest[:1]) + rest[1:]
			}
			return f.canonical + rest, true
		}
	}
	return "", false
}
