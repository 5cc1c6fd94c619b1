package main

import (
	"fmt"
	"runtime"
)

//go:noinline
func recurse(n int) int {
	var r room
	use(&r)
	count("main.recurse")
	if n == 0 {
		return 0
	}
	return recurse(n-1) + 1
}

func recursion(_ *store, n int) { recurse(n) }

// growth makes stacks move in calls.
func growth(_ *store, n int) {
	for k := 0; k < n; k++ {
		done := make(chan bool)
		go func() {
			outer(300)
			close(done)
		}()
		<-done
	}
}

//go:noinline
func outer(n int) int {
	var r room
	use(&r)
	count("main.outer")
	a := recurse(1)
	b := recurse(n)
	runtime.GC() // shrinks the stack
	return a + b + recurse(2)
}

// fails panics n calls deeper.
//
//go:noinline
func fails(n int) int {
	var r room
	use(&r)
	count("main.fails")
	if n == 0 {
		panic(errMissing)
	}
	return fails(n-1) + 1
}

//go:noinline
func recovers(n int) (err error) {
	var r room
	use(&r)
	count("main.recovers")
	defer func() {
		if v := recover(); v != nil {
			leaf(n)
			err = fmt.Errorf("recovered: %v", v)
		}
	}()
	fails(n)
	return nil
}

//go:noinline
func leaf(n int) int {
	var r room
	use(&r)
	count("main.leaf")
	return n
}

func panics(_ *store, n int) {
	for k := 0; k < n; k++ {
		recovers(3)
		leaf(k)
	}
	around(n)
}

// around recovers several calls above, and then goes on.
//
//go:noinline
func around(n int) {
	var r room
	use(&r)
	count("main.around")
	for k := 0; k < n; k++ {
		func() {
			defer func() { recover() }()
			var p *int
			leaf(1)
			faults(p)
		}()
	}
	leaf(2)
}

//go:noinline
func faults(p *int) {
	var r room
	use(&r)
	count("main.faults")
	*p = 5
}

// nestedPanics panics while it panics.
func nestedPanics(_ *store, n int) {
	for k := 0; k < n; k++ {
		func() {
			defer func() { recover() }()
			nests()
		}()
	}
}

//go:noinline
func nests() {
	var r room
	use(&r)
	count("main.nests")
	defer func() {
		recovers(1) // panics and recovers in a deferred call of a panic
		panic("second")
	}()
	fails(1)
}

func goexit(_ *store, n int) {
	for k := 0; k < n; k++ {
		done := make(chan bool)
		go func() {
			defer close(done)
			exits(2)
		}()
		<-done
	}
}

//go:noinline
func exits(n int) {
	var r room
	use(&r)
	count("main.exits")
	if n == 0 {
		defer leaf(9)
		defer func() {
			defer func() { recover() }()
			fails(0)
		}()
		runtime.Goexit()
	}
	exits(n - 1)
	use(&r)
}
