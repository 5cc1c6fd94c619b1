//go:build cgo && zoocgo
// +build cgo,zoocgo

package main

/*
static unsigned long burn(unsigned long n) {
	unsigned long x = n | 1;
	for (unsigned long i = 0; i < n * 1000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

extern void goBack(int);

static void call(int n) {
	goBack(n);
}
*/
import "C"

func init() { loads["cgo"] = inC }

// inC uses its time in C, and in Go code that C calls.
func inC() {
	for {
		C.burn(50)
		C.call(50)
	}
}
