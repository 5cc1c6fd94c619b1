//go:build !cgo

// Command threads calls Go functions on threads that C code has started. Without cgo it does nothing.
package main

import "fmt"

func main() { fmt.Println("ok without cgo") }
