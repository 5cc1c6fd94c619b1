// Package goproc observes a live Go process from outside: which processes are Go programs, what their memory holds, and
// above all the goroutine snapshot, taken while the program runs on.
//
// Its central type is Process. What it knows of the executable comes from package gobin; what it reads comes from the
// process's memory and /proc. A Process is verified before anything is concluded from it: the struct layouts are checked
// against the live data structures and refused when they do not fit.
package goproc
