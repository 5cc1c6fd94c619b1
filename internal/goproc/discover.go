package goproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// Info describes a Go process. Empty fields are unknown.
type Info struct {
	PID, PPID int
	User      string // name, or number where there is no name
	Exe       string // path of the executable as the process's own mount namespace has it
	Deleted   bool   // the executable has been removed or replaced on disk

	GoVersion     string // "go1.22.12"
	Module        string // path of the main module
	ModuleVersion string
	Arch          string // "amd64", "arm64"
	Linkage       gobin.Linkage
	Symbols       gobin.Symbols
	CGO           bool
	LayoutSource  layout.Source

	Goroutines int      // as runtime.NumGoroutine counts them; -1 when they cannot be read
	Engines    []string // that could attach
	Container  string   // ID of the container by its cgroup; empty outside of one
	NSPID      int      // its PID in its own PID namespace; 0 when that is this one
}

// Pids returns the numbers of all processes in /proc, in order.
func pids() ([]int, error) {
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

// List returns the Go processes that can be seen, this one left out. The errors are about processes that are Go programs
// but could not be read; the others are returned all the same.
func List(ctx context.Context) ([]Info, []error) {
	all, err := pids()
	if err != nil {
		return nil, []error{err}
	}
	var infos []Info
	var errs []error
	for _, pid := range all {
		if ctx.Err() != nil {
			return infos, append(errs, ctx.Err())
		}
		if pid == os.Getpid() {
			continue
		}
		info, err := Describe(pid)
		switch {
		case err == nil:
			infos = append(infos, info)
		case errors.Is(err, ErrNotGo), errors.Is(err, ErrNoProcess), errors.Is(err, ErrExited):
		default:
			errs = append(errs, &ListError{PID: pid, Err: err})
		}
	}
	return infos, errs
}

// ListError says why a process is not in the list of List.
type ListError struct {
	PID int
	Err error
}

func (e *ListError) Error() string { return e.Err.Error() }
func (e *ListError) Unwrap() error { return e.Err }

// Describe returns what can be said of one Go process. Goroutines is -1 when its memory cannot be read.
func Describe(pid int) (Info, error) {
	p, err := Open(pid, Options{})
	if err == nil {
		defer p.Close()
		return p.Info(), nil
	}
	if !errors.Is(err, ErrPermission) && !errors.Is(err, ErrLayout) {
		return Info{}, err
	}
	// The executable may be readable although the memory is not.
	dir, dirErr := openProc(pid)
	if dirErr != nil {
		return Info{}, dirErr
	}
	defer dir.close()
	bin, binErr := openExe(pid)
	if binErr != nil {
		return Info{}, err
	}
	defer bin.Close()
	info := describe(dir, bin)
	info.Goroutines = -1
	return info, nil
}

// Info returns what is known of the process.
func (p *Process) Info() Info {
	info := describe(p.dir, p.main.bin)
	info.LayoutSource = p.layout.Source
	info.Engines = engines(p)
	info.Goroutines = -1
	if n, err := p.count(); err == nil {
		info.Goroutines = n
	}
	return info
}

// describe sets the fields that come from /proc and the executable.
func describe(dir *procDir, bin *gobin.Binary) Info {
	info := Info{
		PID: dir.pid, GoVersion: bin.GoVersion(), Arch: bin.Arch(), Linkage: bin.Linkage(), Symbols: bin.Symbols(), CGO: bin.CGO(),
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
		info.Container = containerID(string(b))
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

// containerPattern matches the ID that container runtimes use in cgroup names: Docker, containerd, CRI-O, Podman
// and the kubelet all use 64 hexadecimal digits.
var containerPattern = regexp.MustCompile(`(?:^|[^0-9a-f])([0-9a-f]{64})(?:[^0-9a-f]|$)`)

// containerID returns the ID of a process's container, from the contents of /proc/PID/cgroup.
func containerID(cgroup string) string {
	id := ""
	for line := range strings.Lines(cgroup) {
		for _, m := range containerPattern.FindAllStringSubmatch(line, -1) {
			id = m[1] // the innermost one
		}
		if id != "" {
			return id
		}
	}
	return ""
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

// Alive returns the IDs of the goroutines that are alive, the runtime's own included, in no order. It reads less than a
// snapshot does.
func (p *Process) Alive() ([]uint64, error) {
	var ids []uint64
	err := p.EachAlive(func(id uint64, _ bool) { ids = append(ids, id) })
	return ids, err
}

// EachAlive calls live with each goroutine that is alive, and whether it is one of the runtime's own.
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

// Resolve returns the processes that a target names: a PID, the path of an executable, or a process name (that of the
// executable, or the command name that the process has given itself).
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
	all, err := pids()
	if err != nil {
		return nil, err
	}
	match := matchName(target)
	if strings.ContainsRune(target, filepath.Separator) {
		if match, err = matchPath(target); err != nil {
			return nil, err
		}
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

// matchName returns a predicate for processes with a name.
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
