package uprobe

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// minFilter is the smallest capacity of a filter, in goroutines.
const minFilter = 1 << 12

// maxWaits is the number of goroutines that can wait at the same time if only long waits are reported. Further waits
// are counted as lost.
const maxWaits = 1 << 20

// shared are the maps of the runtime's set that all sets use.
var shared = []string{".data.control", ".data.filter", ".data.gs", learnt, csrc.ProbesMapAllocated, csrc.ProbesMapCounts, csrc.ProbesMapEvents,
	csrc.ProbesMapIdentities, csrc.ProbesMapListed, csrc.ProbesMapRecentStacks, csrc.ProbesMapSpanThreads, csrc.ProbesMapStacks,
	csrc.ProbesMapSystemStarts, csrc.ProbesMapTotals, csrc.ProbesMapTracesCtxV1, csrc.ProbesMapWaits, csrc.ProbesMapWindows}

// spec returns the programs of a set of the plan, with its settings.
func (e *Engine) spec(set int) (*ebpf.CollectionSpec, error) {
	planned := &e.plan.Sets[set]
	spec, err := planned.Code.EBPF()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", planned.Name, err)
	}
	keep := map[string]bool{csrc.ProbesProgProcessExec: true}
	for _, p := range e.plan.Probes {
		if p.Set == set {
			keep["probe_"+p.Program] = true
		}
	}
	for name, prog := range spec.Programs {
		if !keep[name] {
			delete(spec.Programs, name)
			continue
		}
		if e.multi && name != csrc.ProbesProgProcessExec {
			prog.AttachType = ebpf.AttachTraceUprobeMulti
		}
	}
	if err := spec.Variables[csrc.ProbesVarConfig].Set(&e.plan.Config); err != nil {
		return nil, fmt.Errorf("settings of the probes: %w", err)
	}
	if err := spec.Variables["set"].Set(planned.Bytes()); err != nil {
		return nil, fmt.Errorf("settings of the probes of %s: %w", planned.Name, err)
	}
	e.size(spec)
	if err := e.identify(spec); err != nil {
		return nil, fmt.Errorf("settings of the probes: %w", err)
	}
	return spec, e.sizeTables(spec, planned)
}

// size sets the capacity of the maps.
func (e *Engine) size(spec *ebpf.CollectionSpec) {
	spec.Maps[csrc.ProbesMapEvents].MaxEntries = uint32(e.plan.Want.BufferBytes)
	spec.Maps[csrc.ProbesMapListed].MaxEntries = uint32(max(minFilter, 2*e.plan.Room()))
	if e.plan.Want.Allocated != nil {
		spec.Maps[csrc.ProbesMapAllocated].MaxEntries = spec.Maps[csrc.ProbesMapListed].MaxEntries
	}
	spec.Maps[csrc.ProbesMapSystemStarts].MaxEntries = uint32(max(1, len(e.plan.SystemStarts)))
	if e.plan.Want.MinBlock > 0 && e.plan.Want.Kinds.Has(event.GoBlock) {
		spec.Maps[csrc.ProbesMapWaits].MaxEntries = maxWaits
	}
	if e.plan.Config.StackDepth == 0 {
		spec.Maps[csrc.ProbesMapStacks].MaxEntries = 1
	}
}

// tableMap is the name of the map with a table of a set.
func tableMap(name string) string { return "table_" + name }

const overflowMap = "overflow"

// sizeTables sets the capacity of a set's tables.
func (e *Engine) sizeTables(spec *ebpf.CollectionSpec, set *probe.PlannedSet) error {
	for _, t := range set.Set.Tables {
		m := spec.Maps[tableMap(t.Name)]
		if m == nil || int(m.ValueSize) != 8*(1+t.Values) {
			return fmt.Errorf("%s: the C source has no table %s with %s", set.Name, t.Name, english.Count(t.Values, "value"))
		}
		m.MaxEntries = uint32(t.Keys)
	}
	return nil
}

// options makes a set use the maps of the runtime's set, and that of the profiler.
func (e *Engine) options() ebpf.CollectionOptions {
	opt := ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{}}
	if e.profiler != nil {
		opt.MapReplacements[csrc.ProbesMapTracesCtxV1] = e.profiler
	}
	if len(e.colls) > 0 {
		for _, name := range shared {
			opt.MapReplacements[name] = e.colls[0].Maps[name]
		}
	}
	return opt
}

// programError returns the program that caused an error of loading a collection.
var programError = regexp.MustCompile(`program (probe_\w+):`)

func failedProgram(err error) (string, bool) {
	m := programError.FindStringSubmatch(err.Error())
	if m == nil {
		return "", false
	}
	return m[1], true
}

// isVerifier reports whether the kernel's verifier refused a program, as opposed to its right to be loaded.
func isVerifier(err error) bool {
	var v *ebpf.VerifierError
	return errors.As(err, &v) && len(v.Log) > 0
}

// MultiKernel is the first kernel whose uprobe_multi links limit themselves to all threads of a process. Those from 6.6
// on had one thread in mind, and corrections reached some of them.
var MultiKernel = insn.Kernel{Major: 6, Minor: 12}

// MultiUsable returns why this engine cannot use uprobe_multi links here; nil when it can. The error wraps
// ebpf.ErrNotSupported when the kernel is the reason.
func MultiUsable() error {
	if err := features.HaveBPFLinkUprobeMulti(); err != nil {
		return err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	return multiIn(unix.ByteSliceToString(uts.Release[:]))
}

// multiIn is MultiUsable for a kernel release that has such links.
func multiIn(release string) error {
	var k insn.Kernel
	if _, err := fmt.Sscanf(release, "%d.%d", &k.Major, &k.Minor); err != nil {
		return fmt.Errorf("kernel release %q: %w", release, err)
	}
	if k.Before(MultiKernel) {
		return fmt.Errorf("uprobe_multi links of Linux %v: %w", k, ebpf.ErrNotSupported)
	}
	return nil
}
