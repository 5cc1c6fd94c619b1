package instrumentation

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"log/slog"
	"os"

	"github.com/loupe-go/loupe/internal/goproc"
)

// An analyzer finds the processes of executables, and describes processes. Only describe is safe for concurrent use.
type analyzer struct {
	exes []string
	log  *slog.Logger

	finds  int                      // number of calls of find
	ages   map[int]int              // by PID: number of finds in a row that have seen a process with this ID
	taken  map[goproc.Identity]bool // processes that were found by the last find; true for those that need not be found again
	states map[string]string        // by executable: what was logged last
}

// A process usually executes its program soon after it was created. So most finds inspect only the processes that are new, and those
// that were found before.
const (
	newFinds  = 4  // finds that inspect a process after it was created
	fullFinds = 10 // one in fullFinds finds inspects all processes
)

// A found process runs an executable.
type found struct {
	id  goproc.Identity
	exe string
}

func newAnalyzer(exes []string, log *slog.Logger) *analyzer {
	return &analyzer{exes: exes, log: log, ages: map[int]int{}, taken: map[goproc.Identity]bool{}, states: map[string]string{}}
}

// find returns the processes that run one of the executables and were not passed to take.
func (a *analyzer) find() []found {
	inspected := a.inspected()
	present := map[goproc.Identity]bool{}
	var list []found
	for _, exe := range a.exes {
		matches, err := goproc.Matching(exe)
		if err != nil {
			a.note(exe, fmt.Sprintf("cannot find processes: %v", err))
			continue
		}
		running := false
		for _, pid := range inspected {
			if !matches(pid) {
				continue
			}
			id, err := goproc.Identify(pid)
			if err != nil { // it has ended
				continue
			}
			running = true
			if _, twice := present[id]; twice {
				continue
			}
			present[id] = a.taken[id]
			if !a.taken[id] {
				list = append(list, found{id, exe})
			}
		}
		if running {
			a.note(exe, "")
		} else {
			a.note(exe, "waiting for a process that runs the executable")
		}
	}
	a.taken = present
	return list
}

// inspected returns the IDs of the processes that this find inspects.
func (a *analyzer) inspected() []int {
	all, err := goproc.PIDs()
	if err != nil {
		a.log.Warn("cannot find processes", "err", err)
		return nil
	}
	known := map[int]bool{}
	for id := range a.taken {
		known[id.PID] = true
	}
	full := a.finds%fullFinds == 0
	a.finds++
	ages := make(map[int]int, len(all))
	var list []int
	for _, pid := range all {
		age := a.ages[pid]
		ages[pid] = age + 1
		if pid != os.Getpid() && (full || age < newFinds || known[pid]) {
			list = append(list, pid)
		}
	}
	a.ages = ages
	return list
}

// take makes find omit a process.
func (a *analyzer) take(f found) { a.taken[f.id] = true }

// note logs the state of an executable, unless it was logged last.
func (a *analyzer) note(exe, state string) {
	if state != "" && state != a.states[exe] {
		a.log.Info(state, "exe", exe)
	}
	a.states[exe] = state
}

// describe logs what the executable of a process was built from.
func (a *analyzer) describe(pid int) {
	if !a.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	info, err := buildinfo.ReadFile(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		a.log.Debug("the executable has no build information", "pid", pid, "err", err)
		return
	}
	a.log.Debug("found process", "pid", pid, "go", info.GoVersion, "module", info.Main.Path, "version", info.Main.Version)
	for _, m := range info.Deps {
		a.log.Debug("dependency", "pid", pid, "module", m.Path, "version", m.Version)
	}
}
