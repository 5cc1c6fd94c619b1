package uprobe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf/link"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// attachAll attaches the programs. A program that fails is dropped with a warning. It is an error if all fail.
func (e *Engine) attachAll() error {
	exe, err := link.OpenExecutable(e.plan.ImagePath)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var attached []probe.Probe
	var first error
	var expensive []string
	for _, p := range e.plan.Probes {
		if p.Requires != "" && !slices.ContainsFunc(attached, func(q probe.Probe) bool { return q.Set == p.Set && q.Program == p.Requires }) {
			continue
		}
		links, err := e.attach(exe, p)
		if err != nil {
			if first == nil {
				first = err
			}
			e.warn(event.WarnMissing, "%s: %v", p.Without, oneLine{err})
			continue
		}
		if s := p.Sites[0]; !s.At.Emulated {
			expensive = append(expensive, s.Func)
		}
		attached = append(attached, p)
		e.links = append(e.links, links...)
	}
	if len(attached) == 0 {
		return first
	}
	e.plan.Probes = attached
	e.warnCost(expensive)
	e.watchExec()
	return nil
}

// maxNamed is the number of functions that a warning names.
const maxNamed = 3

// warnCost warns about the functions that have probes at expensive instructions.
func (e *Engine) warnCost(funcs []string) {
	slices.Sort(funcs)
	funcs = slices.Compact(funcs)
	names, verb := strings.Join(funcs[:min(len(funcs), maxNamed)], ", "), "is"
	switch n := len(funcs); {
	case n == 0:
		return
	case n > maxNamed:
		names += fmt.Sprintf(" and %d more", n-maxNamed)
		fallthrough
	case n > 1:
		verb = "are"
	}
	e.warn(event.WarnCost, "%s %s probed at an instruction that the kernel does not emulate: about 12 µs per hit instead of 0.6 µs", names, verb)
}

// watchExec attaches the program that reports an exec of the process.
func (e *Engine) watchExec() {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{
		Name: "sched_process_exec", Program: e.colls[0].Programs[csrc.ProbesProgProcessExec],
	})
	if err != nil {
		e.warn(event.WarnMissing, "exec of another program by the process will not be detected: %v", err)
		return
	}
	e.links = append(e.links, l)
}

// attach attaches one program at all of its places, or at none.
func (e *Engine) attach(exe *link.Executable, p probe.Probe) ([]link.Link, error) {
	prog := e.colls[p.Set].Programs["probe_"+p.Program]
	if prog == nil {
		return nil, fmt.Errorf("no program for probe %s", p.Program)
	}
	if e.multi {
		l, err := exe.UprobeMulti(nil, prog, &link.UprobeMultiOptions{Addresses: offsets(p), PID: uint32(e.plan.PID)})
		if err != nil {
			return nil, fmt.Errorf("probe %s: %w", p.Program, err)
		}
		return []link.Link{l}, nil
	}
	var links []link.Link
	for _, s := range p.Sites {
		l, err := exe.Uprobe(s.Func, prog, &link.UprobeOptions{Address: s.Offset, PID: e.plan.PID})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("probe %s in %s: %w", p.Program, s.Func, err), closeLinks(links))
		}
		links = append(links, l)
	}
	return links, nil
}

func offsets(p probe.Probe) []uint64 {
	list := make([]uint64, len(p.Sites))
	for i, s := range p.Sites {
		list[i] = s.Offset
	}
	return list
}

// closeLinks closes links and returns their errors. Each close waits until no thread is in the probe; in parallel they
// take no longer than one.
func closeLinks(links []link.Link) error {
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = l.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
