//go:build !race

package memtrace

const manyGoroutines = 100_000
