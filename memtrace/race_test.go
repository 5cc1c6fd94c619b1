//go:build race

package memtrace

const manyGoroutines = 5000 // the race detector has a limit
