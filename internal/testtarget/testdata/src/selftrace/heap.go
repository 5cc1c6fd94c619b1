package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"strconv"
	"time"
)

// kept is what heap has allocated last.
var kept [][]byte

// heap allocates for some milliseconds while it records a trace. Some
// megabytes of what it allocates stay in use. Into the trace go log messages of
// the category loupe.books: CLOCK_MONOTONIC before and after
// runtime.ReadMemStats, TotalAlloc and Mallocs.
func heap(path, ms string) string {
	n, err := strconv.Atoi(ms)
	if err != nil {
		return "error " + err.Error()
	}
	file, err := os.Create(path)
	if err == nil {
		err = trace.Start(file)
	}
	if err != nil {
		return "error " + err.Error()
	}
	defer file.Close()
	kept = make([][]byte, 2000)
	defer func() { kept = nil }()
	var stats runtime.MemStats
	deadline := time.Now().Add(time.Duration(n) * time.Millisecond)
	for i := 0; time.Now().Before(deadline); i++ {
		for j := 0; j < 100; j++ {
			garbage = make([]byte, 100+j)
			kept[(100*i+j)%len(kept)] = make([]byte, 8000)
		}
		before := clockMonotonic()
		runtime.ReadMemStats(&stats)
		after := clockMonotonic()
		trace.Log(context.Background(), "loupe.books", fmt.Sprint(before, after, stats.TotalAlloc, stats.Mallocs))
		time.Sleep(3 * time.Millisecond)
	}
	trace.Stop()
	return "heaped"
}
