package goproc

import (
	"maps"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestThreadBeingMade verifies a process whose runtime has just begun to make a thread: the M is in the list, but its system
// goroutine is not set yet.
func TestThreadBeingMade(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	p, err := Open(target.PID(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ms, err := p.readMs()
	if err != nil {
		t.Fatal(err)
	}
	tids, err := p.dir.threads()
	if err != nil {
		t.Fatal(err)
	}
	with := func(m rawM) map[uint64]rawM {
		all := maps.Clone(ms)
		all[m.addr] = m
		return all
	}
	const addr = 0x1000
	if err := p.verifyMs(with(rawM{addr: addr}), tids); err != nil {
		t.Error(err)
	}
	for _, m := range ms {
		if tids[m.tid] == 0 {
			continue
		}
		other := m.g0
		if err := p.verifyMs(with(rawM{addr: addr, g0: other}), tids); err == nil {
			t.Error("the system goroutine of another thread was accepted")
		}
		m.g0 = 0
		if err := p.verifyMs(with(m), tids); err == nil {
			t.Error("a running thread without a system goroutine was accepted")
		}
		break
	}
	if err := p.verifyMs(map[uint64]rawM{addr: {addr: addr}}, tids); err == nil {
		t.Error("a process without a complete thread was accepted")
	}
}
