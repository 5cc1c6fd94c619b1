//go:build cgo && zoocgo
// +build cgo,zoocgo

package main

/*
#include <stdint.h>
*/
import "C"

//export mixerCallback
func mixerCallback(n C.uint64_t) C.uint64_t { return C.uint64_t(answer(uint64(n))) }

// mixerMain is the program, for one of C that has loaded it as a library.
//
//export mixerMain
func mixerMain() { main() }
