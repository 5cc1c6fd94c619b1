//go:build loupe_glti

package main

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/loupe-go/loupe/glti"
)

// The events that the agents count, as in the runtime: collections, and goroutines that are created and end.
const counted = 1<<7 | 1<<8 | 1<<13 | 1<<15

var (
	counters [64]struct {
		atomic.Uint64
		_ [56]byte // a cache line of its own
	}
	read uint64 // records that were read from the buffers
)

func init() {
	agents["counters"] = agent{func() { glti.Count(counted) }, func() {}}
	agents["callbacks"] = agent{func() {
		glti.Deliver(func(r glti.Record) { counters[r.Event%64].Add(1) })
		glti.EnableMask(counted)
		go drain()
	}, lost}
	agents["rings"] = agent{func() {
		glti.EnableMask(1<<49 - 1<<5)
		go drain()
	}, lost}
}

// drain reads the buffers, as package glti does.
func drain() {
	glti.Quiet()
	buf := make([]glti.Record, 1<<10)
	for {
		all := 0
		for n := len(buf); n == len(buf); all += n {
			n = glti.DrainInto(buf)
		}
		read += uint64(all)
		glti.Pause(all)
	}
}

func lost() {
	if n := glti.Lost(); n > 0 {
		fmt.Fprintf(os.Stderr, "lost %d events of %d\n", n, n+read)
	}
}
