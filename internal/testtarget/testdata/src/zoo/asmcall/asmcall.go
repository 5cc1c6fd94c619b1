//go:build amd64 || arm64
// +build amd64 arm64

// Package asmcall has an assembly function in the middle of a stack.
package asmcall

// Through calls Rest from assembly.
func Through()

// C is what Rest waits on.
var C = make(chan int)

// Rest never returns.
//
//go:noinline
func Rest() { <-C }
