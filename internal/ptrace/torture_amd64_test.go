package ptrace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestTorture does everything at once to busy programs, for as long as LOUPE_TORTURE says with each (`make torture`), or
// for a moment.
func TestTorture(t *testing.T) {
	last := time.Second
	specs := []testtarget.Spec{{}, {Cgo: true}}
	if s := os.Getenv("LOUPE_TORTURE"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		last = d
		for _, release := range []string{"1.14.15", "1.17.13", "1.19.13", "1.22.12", "1.24.13"} {
			specs = append(specs, testtarget.Spec{Go: release})
		}
	}
	for _, spec := range specs {
		t.Run(spec.String(), func(t *testing.T) { torture(t, spec, last) })
	}
}

// tormentor is what a torture has done so far.
type tormentor struct {
	t       *testing.T
	target  *testtarget.Process
	cgo     bool
	site    aSite // none in releases before 1.17, whose prologue is another one
	hasSite bool
	code    uint64

	stops, calls, maps, patches, busy, killed int
	worst                                     time.Duration // stop for a patch
}

func torture(t *testing.T, spec testtarget.Spec, last time.Duration) {
	target := startMixer(t, spec, 3)
	before := lookForLeftovers(t, target.PID())
	m := &tormentor{t: t, target: target, cgo: spec.Cgo}
	var err error
	m.site, err = findSite(fmt.Sprintf("/proc/%d/exe", target.PID()), 0)
	m.hasSite = err == nil
	m.mapStub()
	for begin := time.Now(); time.Since(begin) < last; {
		switch n := rand.IntN(20); {
		case n < 8:
			m.do(Options{One: n%2 == 0}, m.callRandomly)
		case n < 12:
			m.do(Options{One: n%2 == 0}, func(s *Stopped) error { m.maps++; return mapTwice(s, window(t, target.PID()), false) })
		case n < 19 && m.hasSite:
			m.do(Options{}, m.patch(m.site.old, m.site.jump(m.code)))
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
			m.do(Options{}, m.patch(m.site.jump(m.code), m.site.old))
		case n == 19:
			m.kill()
		}
	}
	m.unmapStub()
	checkSum(t, target)
	awaitUnmasked(t, target.PID())
	// A killed tracer leaves its foothold, at the beginning or end of the code, until another one has used it.
	m.do(Options{}, m.callRandomly)
	before.compare(t, lookForLeftovers(t, target.PID()))
	t.Logf("%d stops, the longest for a patch %v; %d calls, %d times mapped, %d times patched, %d times busy, %d tracers killed",
		m.stops, m.worst, m.calls, m.maps, m.patches, m.busy, m.killed)
}

// do stops the target for f, again when a thread is in the way.
func (m *tormentor) do(opt Options, f func(*Stopped) error) {
	m.t.Helper()
	for {
		err := Run(context.Background(), m.target.PID(), opt, f)
		m.stops++
		if err == nil {
			return
		}
		if !errors.Is(err, ErrBusy) {
			m.t.Fatal(err)
		}
		m.busy++
	}
}

func (m *tormentor) callRandomly(s *Stopped) error {
	for _, th := range s.threads { // in the order of a map
		m.calls++
		if _, err := s.call(th, unix.SYS_GETTID); err != nil || m.calls%3 == 0 {
			return err
		}
	}
	return nil
}

func (m *tormentor) patch(old, new []byte) func(s *Stopped) error {
	return func(s *Stopped) error {
		m.patches++
		err := s.Patch([]Edit{{m.site.addr, old, new}}, m.cgo)
		m.worst = max(m.worst, time.Since(s.Since()))
		return err
	}
}

func (m *tormentor) mapStub() {
	if !m.hasSite {
		return
	}
	m.do(Options{One: true}, func(s *Stopped) (err error) {
		if m.code, err = mapProgram(s, windowAround(m.site.addr, m.site.addr), 4096, 0); err != nil {
			return err
		}
		return s.Write(m.code, m.site.stub(m.code))
	})
}

func (m *tormentor) unmapStub() {
	if !m.hasSite {
		return
	}
	m.do(Options{}, func(s *Stopped) error {
		rest, err := s.Resting([]Interval{{m.code, m.code + 4096}}, m.cgo)
		if err == nil && len(rest) > 0 {
			err = ErrBusy
		}
		if err != nil {
			return err
		}
		return s.Unmap(m.code, 4096)
	})
}

// kill has a tracer die in the middle of a call.
func (m *tormentor) kill() {
	tids, _ := threadsOf(m.t, m.target.PID())
	cmd := helper(nil, "die", strconv.Itoa(m.target.PID()), strconv.Itoa(tids[rand.IntN(len(tids))]), strconv.Itoa(rand.IntN(int(steps))), strconv.Itoa(unix.SYS_GETTID))
	out, err := cmd.Output()
	var status syscall.WaitStatus
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		status, _ = exit.Sys().(syscall.WaitStatus)
	}
	switch {
	case err == nil:
		m.t.Logf("a tracer lived on: %s", out) // its thread had ended
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		m.killed++
	default:
		m.t.Errorf("a tracer was to be killed: %v", err)
	}
}
