package doctor

import "github.com/loupe-go/loupe/internal/goproc"

// Status is the verdict of a check.
type Status string

// The verdicts.
const (
	OK   Status = "ok"
	Warn Status = "warn" // something is missing that not everything needs
	Fail Status = "fail" // nothing, or not this target, can be observed
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`            // what there is
	Means  string `json:"means,omitempty"`  // what follows from it; empty when all is well
	Remedy string `json:"remedy,omitempty"` // what to do about it
}

// Ability is something Loupe can do, and whether it can be done here.
type Ability struct {
	Name    string   `json:"name"`
	Does    string   `json:"does"`
	Met     bool     `json:"requirementsMet"`
	Missing []string `json:"missing,omitempty"` // each requirement that is not met, with its remedy
}

// Report is a check-up of the machine and, when there is one, of a target.
type Report struct {
	Machine   []Check   `json:"machine"`
	Target    []Check   `json:"target,omitempty"`
	Abilities []Ability `json:"abilities"`
	// Breakpoints are those of other tracers in the target's code.
	Breakpoints []goproc.Breakpoint `json:"breakpoints,omitempty"`
}

// Usable reports whether what the check-up is about can be observed.
func (r *Report) Usable() bool {
	for _, c := range append(append([]Check(nil), r.Machine...), r.Target...) {
		if c.Status == Fail {
			return false
		}
	}
	return true
}

// Target is what was found out about a process.
type Target struct {
	PID      int
	Info     goproc.Info // zero when Err is set
	Warnings []string    // of package goproc
	Err      error       // why the process cannot be observed; nil when it can
	Tracer   int         // the process that traces it already; 0 when none does
	TracedBy string      // the name of that process's program
	Refusal  error       // why engine inline would refuse it, as far as that can be found without changing it
	Owner    int         // user ID it runs as; -1 when unknown
	Ancestor bool        // this process is its parent, or a parent of its parents
	Inline   *Inline     // nil when no engine has code in it
	// Breakpoints are those of other tracers in its code.
	Breakpoints []goproc.Breakpoint
}

// Examine makes the report. target is nil when the machine alone is in question.
func Examine(f Facts, target *Target) *Report {
	r := &Report{Machine: f.machine(), Abilities: f.abilities(target)}
	if target != nil {
		r.Target, r.Breakpoints = f.target(target), target.Breakpoints
	}
	return r
}
