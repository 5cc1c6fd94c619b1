//go:build cgo && zoocgo
// +build cgo,zoocgo

package main

/*
#include <stdint.h>
*/
import "C"

//export zooCallback
func zooCallback(n C.uintptr_t) {
	if n > 1 {
		cgoCallback()
	}
	<-never
}

// zooThreadCallback is called by a thread that Go did not make.
//
//export zooThreadCallback
func zooThreadCallback(n C.uintptr_t) { <-never }
