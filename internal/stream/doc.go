// Package stream turns the events of a live program into what a command shows of them: which events a user wants to see,
// how long the wait was that an event ends, how many goroutines came and went, and profiles of them for package pprof.
//
// Its central types are Transitions, which remembers the last change of each goroutine and nothing else, and Profile,
// which is made from what package sched knows. It reads nothing but events, whatever source they are from.
package stream
