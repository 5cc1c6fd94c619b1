// Package checkup defines the result of a check-up: what can be observed on this machine and in a process, and for what
// cannot be observed, the reason and the remedy.
//
// CheckMachine and CheckProcess of package loupe return a [Report]. The command loupe doctor prints it.
package checkup

// A Report is the result of a check-up of this machine and, if one was given, of a target process.
type Report struct {
	Machine   []Finding `json:"machine"`
	Target    []Finding `json:"target,omitempty"`
	Abilities []Ability `json:"abilities"` // what can be done; with a target, to the target

	// Breakpoints lists the breakpoints that other tracers have set in the code of the target.
	Breakpoints []Breakpoint `json:"breakpoints,omitempty"`
}

// Usable reports whether no finding has the status Fail, that is, whether goroutines can be observed.
func (r *Report) Usable() bool {
	for _, findings := range [][]Finding{r.Machine, r.Target} {
		for _, f := range findings {
			if f.Status == Fail {
				return false
			}
		}
	}
	return true
}

// Ability returns the ability with the given name. The result is false if there is none.
func (r *Report) Ability(name string) (Ability, bool) {
	for _, a := range r.Abilities {
		if a.Name == name {
			return a, true
		}
	}
	return Ability{}, false
}

// A Status is the verdict of a Finding.
type Status string

// The verdicts.
const (
	OK   Status = "ok"
	Warn Status = "warn" // something is missing that only some abilities require
	Fail Status = "fail" // nothing can be observed, or not this target
)

// A Finding is one property of the machine or of the target, and what follows from it. The texts are for users, one line
// each.
type Finding struct {
	Name   string `json:"name"` // what was examined, such as "kernel", "ptrace" or "BPF"; does not change between releases
	Status Status `json:"status"`
	Found  string `json:"found"`            // what was found
	Means  string `json:"means,omitempty"`  // the effect on what Loupe can do; empty if there is none
	Remedy string `json:"remedy,omitempty"` // how to fix it; empty if there is nothing to fix
}

// The names of abilities.
const (
	Snapshot    = "snapshot"        // goroutine snapshots and profiles of the user's own processes, or of the target
	SnapshotAll = "snapshot of all" // those of all users' processes; without a target only
	Pause       = "pause"           // snapshots of a stopped process; with a target only
	Uprobe      = "uprobe"          // live events by loupe.EngineUprobe
	Inline      = "inline"          // live events by loupe.EngineInline
	CPU         = "cpu"             // CPU profiles: loupe.Process.CPUProfile
)

// An Ability is something that Loupe can do if its requirements are met.
type Ability struct {
	Name      string   `json:"name"` // Snapshot, SnapshotAll, Pause, Uprobe, Inline or CPU
	Does      string   `json:"does"` // a description for users
	Available bool     `json:"requirementsMet"`
	Missing   []string `json:"missing,omitempty"` // each requirement that is not met, with its remedy
}

// A Breakpoint is an instruction that another tracer has replaced: bpftrace, perf, another user of uprobes, or a debugger.
type Breakpoint struct {
	Func   string `json:"function"`
	Offset uint64 `json:"offset"` // bytes from the entry of the function
}
