//go:build linux && (amd64 || arm64)

package memtrace

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sync"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// Only the assembly uses these.
var _, _, _, _, _ = inherit, inherited, newproc, childCode, runtimeCode

// starts makes new goroutines inherit.
var (
	starts         alteration
	startsEnabling struct {
		once sync.Once
		err  error
	}
)

// enableStarts patches newproc, once. The calling goroutine is paused.
func enableStarts() error {
	startsEnabling.once.Do(func() {
		if err := installStarts(); err != nil {
			startsEnabling.err = fmt.Errorf("%w: goroutines that go statements start cannot be counted: %w", ErrUnsupported, err)
		}
	})
	return startsEnabling.err
}

func installStarts() error {
	f, err := unpatched.newproc()
	if err != nil {
		return err
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer exe.Close()
	if err := unpatched.unchanged(f, exe); err != nil {
		return err
	}
	minor, err := goMinor(runtime.Version())
	if err != nil {
		return err
	}
	p, err := unpatched.placeIn(f, hookStart, minor)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	newproc = f.entry
	childCode = reflect.ValueOf(descendant(heritage{}, nil)).Pointer()
	runtimeCode = [2]uintptr{unpatched.lo, unpatched.endOf(unpatched.hi) - unpatched.lo}
	return starts.make([]place{p}, testStarts)
}

// start is a function with a go statement, and no other call.
//
//go:noinline
func start(f func()) { go f() }

// newproc returns the function that the go statement of start calls. The program may have another one of this name, for
// assembly.
func (t *text) newproc() (function, error) {
	entry := reflect.ValueOf(start).Pointer()
	f := function{entry: entry, end: t.endOf(entry)}
	list, err := insn.Instructions(insn.Code{Arch: runtime.GOARCH, Entry: uint64(entry), Bytes: f.code()})
	if err != nil {
		return f, err
	}
	const name = "runtime.newproc"
	for _, i := range list {
		if i.Flow != insn.FlowCall {
			continue
		}
		pc := uintptr(i.Target)
		if f := runtime.FuncForPC(pc); f != nil && f.Entry() == pc && f.Name() == name {
			return function{name, pc, t.endOf(pc)}, nil
		}
	}
	return f, errors.New("go statements do not call " + name)
}

// testStarts checks that a goroutine, and one that it starts, count into a trace.
func testStarts() error {
	const tries = 5 // the garbage collector may make the goroutines allocate
	var got usage
	for range tries {
		t := &trace{descendants: true}
		t.within = []*trace{t}
		c := newCell(t.within, t.gauges)
		done := make(chan struct{}, 1)
		child := func() {
			tested[0] = new([24]byte)
			done <- struct{}{}
		}
		middle := func() {
			tested[1] = new([40]*int)
			start(child)
		}
		c.attach()
		start(middle)
		c.detach()
		<-done
		got = t.usage()
		tested = [4]any{}
		want := usage{bytes: 24 + 320, objects: 2, calls: 2, elements: 2}
		if got == want {
			return nil
		}
	}
	return fmt.Errorf("a test of patched go statements counted %+v", got)
}
