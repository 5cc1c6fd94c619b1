//go:build shifted

package main

// shift moves the larger variables of the runtime by half a cache line, as any variable of a program may.
var shift [500]*int

func init() { shift[0] = new(int) }
