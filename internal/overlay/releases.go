package overlay

import (
	"fmt"
	"strconv"
	"strings"
)

// The minor releases of Go that the patches are for.
const (
	oldest = 21
	newest = 27
)

// Supported says which releases have patches.
var Supported = fmt.Sprintf("Go 1.%d to 1.%d", oldest, newest)

// A name is what a $name in a patch means in the releases since, until and including two minor releases.
type name struct {
	name         string
	since, until int
	means        string
}

// names are the differences between the releases that the patches must know.
var names = []name{
	// Since Go 1.22 a coroutine that ends calls gdestroy, so what goexit0 did for a goroutine is there.
	{"destroy", 21, 21, "goexit0"},
	{"destroy", 22, newest, "gdestroy"},
	// The package for system calls of Linux that package runtime imports.
	{"syscall", 21, 25, "syscall"},
	{"syscall", 26, newest, "linux"},
	// Since Go 1.24 the implementation of sync.Mutex is in internal/sync.
	{"semacquireMutex", 21, 23, "sync_runtime_SemacquireMutex"},
	{"semacquireMutex", 24, newest, "internal_sync_runtime_SemacquireMutex"},
	// Go 1.22 has a new execution tracer.
	{"traceGCStart", 21, 21, "traceGCStart"},
	{"traceGCStart", 22, newest, "trace.GCStart"},
	{"traceGCDone", 21, 21, "traceGCDone"},
	{"traceGCDone", 22, newest, "trace.GCDone"},
	{"traceSTWStart", 21, 21, "traceSTWStart"},
	{"traceSTWStart", 22, newest, "trace.STWStart"},
	{"traceSTWDone", 21, 21, "traceSTWDone"},
	{"traceSTWDone", 22, newest, "trace.STWDone"},
	{"traceHeapAlloc", 21, 21, "traceHeapAlloc"},
	{"traceHeapAlloc", 22, newest, "trace.HeapAlloc"},
	{"traceHeapGoal", 21, 21, "traceHeapGoal"},
	{"traceHeapGoal", 22, newest, "trace.HeapGoal"},
	{"traceSweepStart", 21, 21, "traceGCSweepStart"},
	{"traceSweepStart", 22, newest, "trace.GCSweepStart"},
	{"traceSweepSpan", 21, 21, "traceGCSweepSpan"},
	{"traceSweepSpan", 22, newest, "trace.GCSweepSpan"},
	{"traceSweepDone", 21, 21, "traceGCSweepDone"},
	{"traceSweepDone", 22, newest, "trace.GCSweepDone"},
	{"traceProcStop", 21, 21, "traceProcStop"},
	{"traceProcStop", 22, newest, "trace.ProcStop"},
	// A thread takes the processor of another one that is in a system call. Since Go 1.26, one function does that.
	{"traceProcSteal", 21, 21, "traceProcStop"},
	{"traceProcSteal", 22, 25, "trace.ProcSteal"},
	{"forEachP", 21, 21, "forEachP"},
	{"forEachP", 22, newest, "forEachPInternal"},
	// A thread in a system call gives its processor to the one that stops the world.
	{"entersyscallStops", 21, 25, "entersyscall_gcwait"},
	{"entersyscallStops", 26, newest, "entersyscallHandleGCWait"},
	// The end of a system call for which there is no processor.
	{"exitsyscallNoP", 21, 25, "exitsyscall0"},
	{"exitsyscallNoP", 26, newest, "exitsyscallNoP"},
	// The file of the functions that runtime/trace calls. Go 1.22 also has trace.go, which GOEXPERIMENT=noexectracer2 selects.
	{"traceFile", 21, 21, "trace.go"},
	{"traceFile", 22, 22, "trace2runtime.go"},
	{"traceFile", 23, newest, "traceruntime.go"},
	// The function that a go statement names, where the compiler has made a wrapper of it.
	{"startPC", 21, 21, "startPCforTrace"},
	{"startPC", 22, newest, "startPCForTrace"},
	// The text of a reason of the execution tracer, which has numbers for events instead before Go 1.22.
	{"traceReason", 21, 21, `""`},
	{"traceReason", 22, newest, "gltiTraceReason(n)"},
	// How the inlined calls at pc in the function f are found.
	{"newInlineUnwinder", 21, 21, "newInlineUnwinder(f, pc, nil)"},
	{"newInlineUnwinder", 22, newest, "newInlineUnwinder(f, pc)"},
	// Random numbers that the handler of a signal may use.
	{"randn", 21, 21, "fastrandn"},
	{"randn", 22, newest, "cheaprandn"},
	// The rate of the clock of block profiles.
	{"ticks", 21, 21, "tickspersecond"},
	{"ticks", 22, newest, "ticksPerSecond"},
	// The size of an object, where mallocgc has allocated it.
	{"elemsize", 21, 21, "size"},
	{"elemsize", 22, 23, "fullSize"},
	// The rest of the arguments of addspecial.
	{"addspecialForce", 21, 23, ""},
	{"addspecialForce", 24, newest, ", false"},
	// The function that prints the value of a panic.
	{"printPanic", 21, 22, "printany"},
	{"printPanic", 23, newest, "printpanicval"},
	// Whether GODEBUG asks for hooks in the allocator: see parsedebugvars.
	{"debugMalloc", 21, 22, "(debug.allocfreetrace|debug.inittrace|debug.sbrk != 0)"},
	{"debugMalloc", 23, 24, "(debug.inittrace|debug.sbrk != 0)"},
	{"debugMalloc", 25, newest, "(debug.inittrace|debug.sbrk|debug.checkfinalizers != 0)"},
}

// lookup returns what a name means in a release.
func lookup(name string, minor int) (string, error) {
	for _, n := range names {
		if n.name == name && n.since <= minor && minor <= n.until {
			return n.means, nil
		}
	}
	return "", fmt.Errorf("no meaning of $%s for Go 1.%d", name, minor)
}

// expand replaces each $name in a text, and $$ by a dollar sign.
func expand(text string, minor int) (string, error) {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		if rest, ok := strings.CutPrefix(after, "$"); ok {
			out.WriteByte('$')
			text = rest
			continue
		}
		end := strings.IndexFunc(after, func(r rune) bool { return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') })
		if end < 0 {
			end = len(after)
		}
		means, err := lookup(after[:end], minor)
		if err != nil {
			return "", err
		}
		out.WriteString(means)
		text = after[end:]
	}
}

// minorOf returns the minor release of a version such as go1.26.8, go1.27rc1 or "go1.24.4 X:synctest".
func minorOf(version string) (int, error) {
	rest, ok := strings.CutPrefix(version, "go1.")
	if !ok {
		return 0, &ReleaseError{version}
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	minor, err := strconv.Atoi(rest[:end])
	if err != nil || minor < oldest || minor > newest {
		return 0, &ReleaseError{version}
	}
	return minor, nil
}

// A ReleaseError is a Go release for which there are no patches.
type ReleaseError struct{ Version string }

func (e *ReleaseError) Error() string {
	return fmt.Sprintf("cannot patch the runtime of %s: supported are %s (set GOTOOLCHAIN to one of them, or use the go command without loupe)",
		e.Version, Supported)
}
