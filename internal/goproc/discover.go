package goproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/container"
	"github.com/loupe-go/loupe/internal/gobin"
)

// PIDs returns the IDs of all processes in /proc, in increasing order.
func PIDs() ([]int, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n.Name()); err == nil {
			all = append(all, pid)
		}
	}
	slices.Sort(all)
	return all, nil
}

// List yields the visible Go processes in increasing order of their PIDs, without the calling process. For a process
// that may be a Go program but could not be read, it yields an error and a ProcessInfo that has only the PID. The
// iteration ends early if the context is done.
func List(ctx context.Context) iter.Seq2[event.ProcessInfo, error] {
	return func(yield func(event.ProcessInfo, error) bool) {
		all, err := PIDs()
		if err != nil {
			yield(event.ProcessInfo{}, err)
			return
		}
		for _, pid := range all {
			if ctx.Err() != nil {
				return
			}
			if pid == os.Getpid() {
				continue
			}
			info, err := Describe(pid)
			switch {
			case errors.Is(err, ErrNotGo), errors.Is(err, ErrNoProcess), errors.Is(err, ErrExited):
				continue
			case err != nil:
				info = event.ProcessInfo{PID: pid}
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Describe returns a description of a Go process. Goroutines is -1 if the memory of the process cannot be read.
func Describe(pid int) (event.ProcessInfo, error) {
	p, err := Open(pid, Options{})
	if err == nil {
		defer p.Close()
		return p.Info(), nil
	}
	if !errors.Is(err, ErrPermission) && !errors.Is(err, ErrLayout) {
		return event.ProcessInfo{}, err
	}
	// The executable may be readable even if the memory is not.
	dir, dirErr := openProc(pid)
	if dirErr != nil {
		return event.ProcessInfo{}, dirErr
	}
	defer dir.close()
	bin, binErr := openExe(pid)
	if binErr != nil {
		return event.ProcessInfo{}, err
	}
	defer bin.Close()
	info := describe(dir, bin)
	info.Goroutines = -1
	return info, nil
}

// Info returns a description of the process.
func (p *Process) Info() event.ProcessInfo {
	info := describe(p.dir, p.main.bin)
	info.Layout = p.layout.Source.String()
	info.Engines = engines(p)
	info.Goroutines = -1
	if n, err := p.count(); err == nil {
		info.Goroutines = n
	}
	return info
}

// describe sets the fields that come from /proc and the executable.
func describe(dir *procDir, bin *gobin.Binary) event.ProcessInfo {
	info := event.ProcessInfo{
		PID: dir.pid, GoVersion: bin.GoVersion(), Arch: bin.Arch(), Linkage: string(bin.Linkage()), Symbols: string(bin.Symbols()), CGO: bin.CGO(),
		ToolInterface: bin.ToolInterface(),
	}
	if build := bin.BuildInfo(); build != nil {
		info.Module, info.ModuleVersion = build.Main.Path, build.Main.Version
		if info.Module == "" {
			info.Module = build.Path
		}
	}
	if st, err := dir.stat(); err == nil {
		info.PPID = st.ppid
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", dir.pid))
	if err == nil {
		info.Exe, info.Deleted = strings.CutSuffix(exe, " (deleted)")
	}
	info.User = userName(dir)
	if b, err := dir.read("cgroup"); err == nil {
		info.Container = container.Parse(string(b)).ID
	}
	info.NSPID = dir.innerPID()
	return info
}

// userName returns the user that the process runs as.
func userName(dir *procDir) string {
	ids := strings.Fields(dir.statusField("Uid"))
	if len(ids) < 2 {
		return ""
	}
	if u, err := user.LookupId(ids[1]); err == nil {
		return u.Username
	}
	return ids[1]
}

// engines returns the names of the engines that support the executable of a process.
func engines(p *Process) []string {
	if p.main.bin.Arch() != runtime.GOARCH {
		return []string{}
	}
	return []string{"uprobe", "inline"}
}

// count returns the number of goroutines as runtime.NumGoroutine counts them.
func (p *Process) count() (int, error) {
	n := 0
	err := p.EachAlive(func(_ uint64, system bool) {
		if !system {
			n++
		}
	})
	return n, err
}

// Alive returns the IDs of all live goroutines, including those of the runtime, in no particular order. It reads less
// than a snapshot does.
func (p *Process) Alive() ([]uint64, error) {
	var ids []uint64
	err := p.EachAlive(func(id uint64, _ bool) { ids = append(ids, id) })
	return ids, err
}

// EachAlive calls live with the ID of each live goroutine, and whether it belongs to the runtime.
func (p *Process) EachAlive(live func(id uint64, system bool)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	addrs, err := p.readAllgs()
	if err != nil {
		return err
	}
	gs, err := p.readGs(addrs)
	if err != nil {
		return err
	}
	for _, g := range gs {
		if !p.rt.gone(g) {
			live(g.goid, isSystem(p.symbols.lookup(g.startPC).fn.Name, nil))
		}
	}
	return nil
}

// Resolve returns the PIDs of the processes that match target: a PID, the path of an executable, the base name of an
// executable, or the command name in /proc/PID/comm.
func Resolve(target string) ([]int, error) {
	if pid, err := strconv.Atoi(target); err == nil {
		if pid <= 0 {
			return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
		}
		return []int{pid}, nil
	}
	all, err := PIDs()
	if err != nil {
		return nil, err
	}
	match, err := Matching(target)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range all {
		if pid != os.Getpid() && match(pid) {
			found = append(found, pid)
		}
	}
	slices.SortFunc(found, cmp.Compare)
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", target, ErrNoProcess)
	}
	return found, nil
}

// Matching returns a predicate for the processes that match a target other than a PID: see [Resolve]. It is for a search that takes
// place now, because the file at a path can be replaced.
func Matching(target string) (func(pid int) bool, error) {
	if strings.ContainsRune(target, filepath.Separator) {
		return matchPath(target)
	}
	return matchName(target), nil
}

// matchPath returns a predicate for processes that execute the file at a path: the same file, or the same path in the
// process's own mount namespace.
func matchPath(path string) (func(pid int) bool, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	st, statErr := os.Stat(abs)
	return func(pid int) bool {
		link := fmt.Sprintf("/proc/%d/exe", pid)
		if statErr == nil {
			if exe, err := os.Stat(link); err == nil && os.SameFile(st, exe) {
				return true
			}
		}
		name, err := os.Readlink(link)
		return err == nil && strings.TrimSuffix(name, " (deleted)") == abs
	}, nil
}

// matchName returns a predicate for processes with the given name.
func matchName(name string) func(pid int) bool {
	return func(pid int) bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == name {
			return true
		}
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err == nil && strings.TrimSuffix(string(comm), "\n") == name
	}
}
