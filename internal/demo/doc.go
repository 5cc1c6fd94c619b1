// Package demo implements the program that `loupe demo` observes. It is a small shop backend that is part of the loupe
// executable, so that it needs no toolchain and no other file.
//
// [Run] runs the program: order workers that use channels, bookkeepers that contend for a mutex, a TCP and HTTP server
// with idle and busy connections on the loopback interface, timers, and a search that leaks goroutines. [Program] runs
// it as a child process. The program does not know that it is observed, and the packages that observe it do not know
// what it does.
package demo
