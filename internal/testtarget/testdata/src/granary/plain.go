//go:build !go1.18
// +build !go1.18

package main

// generic allocates without type arguments.
func generic(n int) interface{} { return &[]int{n} }
