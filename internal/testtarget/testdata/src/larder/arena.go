//go:build goexperiment.arenas
// +build goexperiment.arenas

package main

import "arena"

func init() { commands["arena"] = freeArena }

// freeArena allocates n objects in an arena, and frees it.
func freeArena(n, size int) {
	a := arena.NewArena()
	for i := 0; i < n; i++ {
		arena.MakeSlice[byte](a, size, size)[0] = 1
	}
	a.Free()
}
