package trace

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/order"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/internal/tracev1"
	"github.com/loupe-go/loupe/trace/raw"
)

// ValidateOptions configures [Validate]. The zero value is suitable for most uses.
type ValidateOptions struct {
	// PerCode is the maximum number of problems of each code in Report.Problems. 0 means DefaultPerCode. Problems beyond
	// that number are still counted.
	PerCode int
	// MaxMemory limits the memory that is used, as Reader.MaxMemory does.
	MaxMemory int64
}

// DefaultPerCode is the default of ValidateOptions.PerCode.
const DefaultPerCode = 20

// A Report is the result of [Validate].
type Report struct {
	Version     raw.Version
	Generations int   // number of generations
	Batches     int   // number of batches of any kind
	Events      int64 // number of events that have a time, and of CPU profiler samples
	Bytes       int64 // number of bytes read

	// Errors and Warnings are the numbers of problems of each severity.
	Errors, Warnings int64
	// Counts is the number of problems by code, including those that are not in Problems.
	Counts map[Code]int
	// Problems contains the first PerCode problems of each code, generation by generation. Within a generation, the
	// problems of its framing and tables come first, then those of its events in the order in which the events happened.
	Problems []Problem
	// PerCode is the value of ValidateOptions.PerCode, or the default.
	PerCode int
	// Omitted is the number of problems that are not in Problems because of PerCode.
	Omitted int64
	// Unchecked is the number of mismatches that may only be a consequence of parts of the trace that could not be read.
	// They are not counted as problems; the unreadable parts themselves are.
	Unchecked int64
}

// Valid reports whether the toolchain's reader accepts the trace, that is, whether Errors is 0.
func (r *Report) Valid() bool { return r.Errors == 0 }

// Codes returns the codes of the problems found, sorted.
func (r *Report) Codes() []Code { return slices.Sorted(maps.Keys(r.Counts)) }

// String returns a summary of the report in one line.
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

// Validate reports all problems of a trace, not only the first one. After a problem it continues, assuming that what
// the trace says is true. Validate is stricter than the readers of the Go toolchain: problems because of which these
// reject the trace are of severity [Error], and everything else that no Go program writes is of severity [Warning].
//
// Traces from before Go 1.22 are checked less thoroughly. Validate checks their structure, and then reports the first
// problem that the toolchain's reader has with them.
//
// The error wraps [raw.ErrHeader] if r does not contain a trace, and [raw.ErrVersion] if the version of the trace is
// not supported. If reading from r fails, or the trace requires more memory than permitted (a *[MemoryError]), Validate
// returns the error together with a report about what was read before.
//
// Validate holds one generation of the trace in memory. A trace from before Go 1.22 is held as a whole.
func Validate(r io.Reader, opt ValidateOptions) (*Report, error) {
	if opt.PerCode <= 0 {
		opt.PerCode = DefaultPerCode
	}
	in := generation.NewInput(r)
	v, err := generation.ReadHeader(in)
	if err != nil {
		return nil, err
	}
	val := &validation{version: v, list: problem.NewList(opt.PerCode), report: Report{Version: v, PerCode: opt.PerCode}, memory: memory.Limit(opt.MaxMemory)}
	if v.V1() {
		err = val.old(in)
	} else {
		err = val.generations(in)
	}
	return val.finish(), publicError(err)
}

// A validation is one run of Validate.
type validation struct {
	version raw.Version
	list    *problem.List
	report  Report
	memory  int64 // bytes that may be used
}

// finish completes the report.
func (v *validation) finish() *Report {
	r := &v.report
	r.Errors, r.Warnings, r.Unchecked = v.list.Errors, v.list.Warnings, v.list.Unchecked
	r.Problems, r.Counts = publicProblems(v.list.Kept), v.list.Counts
	r.Omitted = r.Errors + r.Warnings - int64(len(r.Problems))
	return r
}

// old looks at a trace of before Go 1.22.
func (v *validation) old(in *generation.Input) error {
	counts, err := tracev1.Validate(in, v.version, v.memory, v.list)
	v.report.Generations = 1
	v.report.Bytes, v.report.Batches, v.report.Events = counts.Bytes, counts.Batches, counts.Events
	return err
}

// generations looks at a trace of Go 1.22 or later.
func (v *validation) generations(in *generation.Input) error {
	loader := generation.NewLoader(in, v.version, v.report.PerCode)
	loader.Memory = v.memory
	md := order.New(v.version, v.list)
	for {
		g, err := loader.Next()
		v.report.Bytes = in.Offset()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		v.list.AddAll(g.Problems)
		if !g.Empty {
			if err := v.generation(md, g, loader); err != nil {
				return err
			}
		}
		loader.Release(g)
	}
}

// generation looks at the events of a generation.
func (v *validation) generation(md *order.Model, g *generation.Generation, loader *generation.Loader) error {
	v.report.Generations++
	v.report.Batches += g.Batches
	v.report.Events += int64(len(g.Samples))
	g.Samples = g.Samples[:0] // they have no place in the order of events
	md.Begin(g)
	for {
		switch step, _ := md.Step(); step {
		case order.StepEvent:
			v.report.Events++
		default:
			return nil
		}
		if v.report.Events%1024 == 0 {
			if loader.State = md.Memory() + int64(len(v.list.Kept))*memory.Problem; !loader.Fits() {
				return loader.Over
			}
		}
	}
}
