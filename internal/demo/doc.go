// Package demo is the program that `loupe demo` looks at: a small shop backend inside the loupe executable, so that it
// needs no toolchain and no other file.
//
// Run is the program: order workers on channels, bookkeepers that fight for one mutex, a TCP and HTTP server with idle
// and busy connections on the loopback interface, timers, and a search that leaks goroutines. Program is the same thing
// as a child process. Nothing here knows that it is observed, and nothing that observes it knows what is in here.
package demo
