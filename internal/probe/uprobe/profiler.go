package uprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// The shape of the map by which programs that make spans and profilers share the span of a thread (OTEP 4855 of OpenTelemetry).
const (
	profilerEntries   = 1 << 14
	profilerKeySize   = 8  // the ID of a thread as bpf_get_current_pid_tgid returns it
	profilerValueSize = 24 // trace ID and span ID
)

// spansWithThreads is the number of requests that can have goroutines of their own running at once: see identity.h. Those of further
// requests are not in the map.
const spansWithThreads = 1 << 14

// learnt is the map with what the probes learn of the target.
const learnt = ".data.target"

// openProfilerMap opens the map that is pinned at a path, or creates it and pins it there. The map stays pinned: who uses it keeps the one
// that it has opened, so a second one would separate those that were started before and after.
func openProfilerMap(path string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		m, err = pinProfilerMap(path)
	}
	switch {
	case errors.Is(err, probe.ErrUnsupported):
		return nil, err
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("%w: the map of the profiler at %s: %v", probe.ErrPermission, path, err)
	case err != nil: // an error that wraps ENOENT would be one about the target
		return nil, fmt.Errorf("%w: the map of the profiler at %s: %v", probe.ErrUnsupported, path, err)
	}
	if problem := profilerMapProblem(m); problem != "" {
		m.Close()
		return nil, fmt.Errorf("%w: the map at %s is not that of a profiler: %s", probe.ErrUnsupported, path, problem)
	}
	return m, nil
}

// profilerMapProblem says what is wrong with the shape of a map; it is empty if nothing is.
func profilerMapProblem(m *ebpf.Map) string {
	switch {
	case m.Type() != ebpf.LRUHash:
		return fmt.Sprintf("its type is %v, want %v", m.Type(), ebpf.LRUHash)
	case m.KeySize() != profilerKeySize:
		return fmt.Sprintf("its keys have %d bytes, want %d", m.KeySize(), profilerKeySize)
	case m.ValueSize() != profilerValueSize:
		return fmt.Sprintf("its values have %d bytes, want %d", m.ValueSize(), profilerValueSize)
	case m.MaxEntries() < profilerEntries:
		return fmt.Sprintf("it has room for %s, want at least %d", english.Count(m.MaxEntries(), "entry"), profilerEntries)
	case m.Flags()&(unix.BPF_F_RDONLY_PROG|unix.BPF_F_WRONLY_PROG) != 0:
		return "eBPF programs may not read and write it"
	}
	return ""
}

// pinProfilerMap creates the map, and the directories above it.
func pinProfilerMap(path string) (*ebpf.Map, error) {
	dir := filepath.Dir(path)
	if err := checkBPFFS(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: csrc.ProbesMapTracesCtxV1, Type: ebpf.LRUHash, KeySize: profilerKeySize,
		ValueSize: profilerValueSize, MaxEntries: profilerEntries})
	if err != nil {
		return nil, err
	}
	err = m.Pin(path)
	if err == nil {
		return m, nil
	}
	m.Close()
	if errors.Is(err, fs.ErrExist) { // another program has just pinned it
		return ebpf.LoadPinnedMap(path, nil)
	}
	return nil, err
}

// checkBPFFS returns an error if a directory, or the lowest one above it that exists, is not in a BPF file system.
func checkBPFFS(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		var st unix.Statfs_t
		switch err := unix.Statfs(at, &st); {
		case errors.Is(err, unix.ENOENT) && at != filepath.Dir(at):
			continue
		case err != nil:
			return err
		case uint64(st.Type) != unix.BPF_FS_MAGIC:
			return fmt.Errorf("%w: no BPF file system is mounted at %s, where a map can be pinned (mount -t bpf bpf /sys/fs/bpf)", probe.ErrUnsupported, dir)
		}
		return nil
	}
}

// openProfiler opens the map of the profiler if one is wanted. Entries of an earlier session that was killed are removed.
func (e *Engine) openProfiler() error {
	if e.plan.Want.ProfilerMap == "" {
		return nil
	}
	m, err := openProfilerMap(e.plan.Want.ProfilerMap)
	if err != nil {
		return err
	}
	e.profiler = m
	if e.plan.Config.NsIno != 0 {
		return nil
	}
	if err := removeThreads(m, e.plan.Config.Tgid); err != nil {
		e.warn(event.WarnMissing, "threads of an earlier observation may remain in the map of the profiler for a while: %v", err)
	}
	return nil
}

// identify has the programs of a set fill the map of the profiler.
func (e *Engine) identify(spec *ebpf.CollectionSpec) error {
	if e.profiler == nil {
		return nil
	}
	spec.Maps[csrc.ProbesMapTracesCtxV1].MaxEntries = e.profiler.MaxEntries()
	spec.Maps[csrc.ProbesMapTracesCtxV1].Flags = e.profiler.Flags()
	spec.Maps[csrc.ProbesMapIdentities].MaxEntries = spec.Maps[csrc.ProbesMapListed].MaxEntries + uint32(csrc.SmallIDs)
	spec.Maps[csrc.ProbesMapSpanThreads].MaxEntries = spansWithThreads
	return spec.Variables[csrc.ProbesVarIdentify].Set(uint32(1))
}

// closeProfiler removes the entries of the target. The probes must have been removed.
func (e *Engine) closeProfiler() error {
	if e.profiler == nil {
		return nil
	}
	var err error
	if tgid, known := e.targetID(); known {
		err = removeThreads(e.profiler, tgid)
	}
	return errors.Join(err, e.profiler.Close())
}

// targetID returns the process ID of the target in the initial PID namespace. It is known if the map has ever had an entry of the target.
func (e *Engine) targetID() (tgid uint32, known bool) {
	if len(e.colls) == 0 {
		return 0, false
	}
	raw, err := e.maps()[learnt].LookupBytes(uint32(0))
	if err != nil || len(raw) < 8 {
		return 0, false
	}
	id := binary.NativeEndian.Uint64(raw) // struct loupe_target
	return uint32(id), id != 0
}

// removeThreads removes the entries of the threads of a process.
func removeThreads(m *ebpf.Map, tgid uint32) error {
	for range 8 { // others change the map meanwhile, which can end the iteration
		var own []uint64
		var key uint64
		var value [profilerValueSize]byte
		entries := m.Iterate()
		for entries.Next(&key, &value) {
			if uint32(key>>32) == tgid {
				own = append(own, key)
			}
		}
		for _, key := range own {
			if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("removing threads from the map of the profiler: %w", err)
			}
		}
		if !errors.Is(entries.Err(), ebpf.ErrIterationAborted) {
			return entries.Err()
		}
	}
	return errors.New("the map of the profiler changes too often to find all threads")
}

// profilerProbes are the programs of the runtime's set without which the map would have wrong entries.
var profilerProbes = []string{csrc.ProbesProgProbeGopark, csrc.ProbesProgProbeExecute, csrc.ProbesProgProbeGoexit0, csrc.ProbesProgProbeExitsyscallNoP}

// checkProfiler returns an error if probes are missing that the map of the profiler requires.
func (e *Engine) checkProfiler() error {
	if e.profiler == nil {
		return nil
	}
	attached := map[string]bool{}
	for _, p := range e.plan.Probes {
		if p.Set == 0 {
			attached["probe_"+p.Program] = true
		}
	}
	for _, name := range profilerProbes {
		if !attached[name] {
			return fmt.Errorf("%w: the map of a profiler requires probe %s, which cannot be attached to this program", probe.ErrUnsupported,
				strings.TrimPrefix(name, "probe_"))
		}
	}
	return nil
}
