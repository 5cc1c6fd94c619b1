package goproc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/user"
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
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
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
