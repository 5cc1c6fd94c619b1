package trace

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/trace/raw"
)

// ValidateOptions says what Validate reports. The zero value is right for most uses.
type ValidateOptions struct {
	// PerCode is how many problems of each code the report has at most; 0 means DefaultPerCode. All are counted.
	PerCode int
	// MaxMemory bounds the memory that is used, as Reader.MaxMemory does.
	MaxMemory int64
}

// DefaultPerCode is how many problems of each code a Report has at most.
const DefaultPerCode = 20

// A Report is what Validate has found in a trace.
type Report struct {
	Version     raw.Version
	Generations int   // parts that the trace consists of
	Batches     int   // of any kind
	Events      int64 // with a time, and samples of the CPU profiler
	Bytes       int64 // that were read

	// Errors and Warnings count the problems of each severity.
	Errors, Warnings int64
	// Counts has the number of problems of each code that occurred, those included that are not in Problems.
	Counts map[Code]int
	// Problems are the first PerCode problems of each code: of one generation after the other, first those of its framing
	// and tables, then those of its events in the order in which they happened.
	Problems []Problem
	// PerCode is ValidateOptions.PerCode.
	PerCode int
	// Omitted is how many problems are not in Problems, because there were PerCode of their code.
	Omitted int64
	// Unchecked is how often something did not fit that may be the consequence of parts that could not be read. What those
	// are is among the problems. It is not counted as a problem.
	Unchecked int64
}

// Valid reports whether the toolchain's reader accepts the trace: there is no Error.
func (r *Report) Valid() bool { return r.Errors == 0 }

// Codes returns the codes of the problems that occurred, sorted.
func (r *Report) Codes() []Code { return slices.Sorted(maps.Keys(r.Counts)) }

// String returns the numbers of problems in one line.
func (r *Report) String() string {
	s := fmt.Sprintf("trace of %v, %s, %s, %s: %s, %s", r.Version, english.Count(r.Generations, "generation"),
		english.Count(r.Batches, "batch"), english.Count(r.Events, "event"), english.Count(r.Errors, "error"), english.Count(r.Warnings, "warning"))
	if r.Omitted > 0 {
		s += fmt.Sprintf(", %d of them not listed (%d of each code are)", r.Omitted, r.PerCode)
	}
	if r.Unchecked > 0 {
		s += fmt.Sprintf(", %s not checked because of unreadable parts", english.Count(r.Unchecked, "thing"))
	}
	return s
}

// Validate looks for all problems of a trace, not only the first: after each it goes on and believes what is written
// there. It is stricter than the readers of the Go toolchain: what these refuse is an Error, what else no Go program
// writes is a Warning. The trace may be of Go 1.22 or later; of an older one the structure is looked at, and then the
// first problem is reported that the toolchain's reader has with it.
//
// The error wraps raw.ErrHeader if r has no trace, and raw.ErrVersion if it is of a version that is not known. If it is
// the one of r, the report is about what was read until then.
//
// One generation of the trace is kept in memory, and the whole trace if it is older than Go 1.22.
func Validate(r io.Reader, opt ValidateOptions) (*Report, error) {
	if opt.PerCode <= 0 {
		opt.PerCode = DefaultPerCode
	}
	in := newModelInput(r)
	v, err := modelVersion(in)
	if err != nil {
		return nil, err
	}
	val := &validation{version: v, list: newValidList(opt.PerCode), report: Report{Version: v, PerCode: opt.PerCode}, memory: memoryLimit(opt.MaxMemory)}
	if v.V1() {
		err = val.old(in)
	} else {
		err = val.generations(in)
	}
	return val.finish(), err
}

// A validation is one run of Validate.
type validation struct {
	version raw.Version
	list    *validList
	report  Report
	memory  int64 // bytes that may be used
}

// finish completes the report.
func (v *validation) finish() *Report {
	r := &v.report
	r.Errors, r.Warnings, r.Unchecked = v.list.errors, v.list.warnings, v.list.unchecked
	r.Problems, r.Counts = v.list.kept, v.list.counts
	r.Omitted = r.Errors + r.Warnings - int64(len(r.Problems))
	return r
}

// generations looks at a trace of Go 1.22 or later.
func (v *validation) generations(in *modelInput) error {
	loader := newModelLoader(in, v.version, v.report.PerCode)
	loader.memory = v.memory
	md := newModel(v.version, v.list)
	for {
		g, err := loader.next()
		v.report.Bytes = in.offset()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		v.list.addAll(g.problems)
		if !g.empty {
			if err := v.generation(md, g, loader); err != nil {
				return err
			}
		}
		loader.release(g)
	}
}

// generation looks at the events of a generation.
func (v *validation) generation(md *model, g *modelGeneration, loader *modelLoader) error {
	v.report.Generations++
	v.report.Batches += g.batches
	v.report.Events += int64(len(g.samples))
	g.samples = g.samples[:0] // they have no place in the order of events
	md.begin(g)
	for {
		switch step, _ := md.step(); step {
		case modelStepEvent:
			v.report.Events++
		default:
			return nil
		}
		if v.report.Events%1024 == 0 {
			if loader.state = md.memory() + int64(len(v.list.kept))*memoryProblem; !loader.fits() {
				return loader.over
			}
		}
	}
}
