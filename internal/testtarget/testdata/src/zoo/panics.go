package main

import (
	"errors"
	"runtime"
)

func init() { exhibit(showPanics) }

func showPanics() {
	go panicDeferred()
	go panicNested()
	go nilPointerDeferred()
	go divideDeferred()
	go indexDeferred()
	go recoveredDeferred()
	go recoveredAndOn()
	go goexitDeferred()
	go returnDeferred()
	go returnDeferredLoop(3)
	go runtimeErrorDeferred(nil)
}

// panicDeferred rests in a deferred call while it panics.
func panicDeferred() {
	defer func() { <-never }()
	thrower()
}

//go:noinline
func thrower() { panic(errors.New("thrown")) }

// panicNested rests in the deferred call of a second panic, which a deferred
// call of the first one threw.
func panicNested() {
	defer func() {
		defer func() { <-never }()
		panic("second")
	}()
	panic("first")
}

// nilPointerDeferred has the frame of a signal in its stack.
func nilPointerDeferred() {
	defer func() { <-never }()
	println(load(nil))
}

//go:noinline
func load(p *[4]int) int { return p[2] }

func divideDeferred() {
	defer func() { <-never }()
	println(divide(1, 0))
}

//go:noinline
func divide(a, b int) int { return a / b }

func indexDeferred() {
	defer func() { <-never }()
	println(index(nil, 3))
}

//go:noinline
func index(list []int, i int) int { return list[i] }

// recoveredDeferred rests after recover, in the deferred call.
func recoveredDeferred() {
	defer func() {
		if recover() != nil {
			<-never
		}
	}()
	thrower()
}

// recoveredAndOn rests after its callee recovered and returned.
func recoveredAndOn() {
	func() {
		defer func() { recover() }()
		thrower()
	}()
	<-never
}

// goexitDeferred rests in a deferred call of runtime.Goexit.
func goexitDeferred() {
	defer func() { <-never }()
	runtime.Goexit()
}

// returnDeferred rests in a deferred call of a function that returns.
func returnDeferred() (n int) {
	defer func() { n = <-never }()
	return 3
}

// returnDeferredLoop defers in a loop, which the compiler cannot open-code.
func returnDeferredLoop(n int) {
	for i := 0; i < n; i++ {
		defer func() { <-never }()
	}
}

// runtimeErrorDeferred panics in a failed type assertion.
func runtimeErrorDeferred(v interface{}) {
	defer func() { <-never }()
	println(v.(string))
}
