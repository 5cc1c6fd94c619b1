package main

import (
	"errors"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/nethttp"
	"github.com/loupe-go/loupe/internal/spans/router"
)

// silent attaches the uprobes of requests to a process until it is interrupted, but never enables them: their programs return at once. What
// this costs is the least that uprobes at these places cost.
func silent(pid int, breakdown bool) (err error) {
	p, err := goproc.Open(pid, goproc.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	tracker := join.NewTracker(join.Options{})
	unwinds := !nethttp.PatternLost(p)
	want := probe.Want{Kinds: event.KindsOf(event.GoCreate, event.GoDestroy), BufferBytes: 1 << 20, Requests: true,
		Sets: []*probe.Set{nethttp.New(tracker, p.TypeName, nethttp.Options{Unwinds: unwinds}), router.New(tracker, router.Options{HasPattern: unwinds})}}
	if want.Spare = want.Kinds; breakdown {
		want.Spare = event.Kinds{}
		want.Kinds = want.Kinds.Union(event.KindsOf(event.GoStart, event.GoStop, event.GoBlock, event.GoUnblock))
	}
	plan, _, err := probe.NewPlan(p, want)
	if err != nil {
		return err
	}
	engine := uprobe.New(uprobe.Options{})
	if _, err := engine.Attach(plan); err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, unix.SIGINT)
	<-interrupted
	return errors.Join(engine.Close(), engine.Release())
}
