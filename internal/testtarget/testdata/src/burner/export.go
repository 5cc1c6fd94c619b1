//go:build cgo && zoocgo
// +build cgo,zoocgo

package main

import "C"

//export goBack
func goBack(n C.int) { spin(int(n)) }
