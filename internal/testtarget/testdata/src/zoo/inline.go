package main

import cage "loupe.test/zoo/cage.v2"

func init() { exhibit(showInlining) }

func showInlining() {
	go inlineRoot(never)
	go inlineTwice(never)
	go inlineRecursive(3, never)
	go inlineMethod(&box{never})
	go inlineClosure(never)
	go inlineOtherPackage(never)
	go inlineLeaf(never)
}

// The compiler inlines inlineLeaf into inlineMiddle, and that into its callers.
func inlineLeaf(c chan int) int { return <-c }

func inlineMiddle(c chan int) int {
	return inlineLeaf(c) + 1
}

//go:noinline
func inlineRoot(c chan int) { println(inlineMiddle(c)) }

// inlineTwice has the same function inlined at two places and rests in the
// second.
//
//go:noinline
func inlineTwice(c chan int) {
	ready := make(chan int, 1)
	ready <- 1
	println(
		inlineMiddle(ready),
		inlineMiddle(c),
	)
}

// inlineRecursive has inlined frames between real ones.
//
//go:noinline
func inlineRecursive(n int, c chan int) int {
	if n == 0 {
		return inlineMiddle(c)
	}
	return inlineRecursive(n-1, c) + 1
}

type box struct{ c chan int }

func (b *box) open() int { return <-b.c }

func (b *box) unpack() int { return b.open() * 2 }

//go:noinline
func inlineMethod(b *box) { println(b.unpack()) }

//go:noinline
func inlineClosure(c chan int) {
	get := func() int { return inlineLeaf(c) }
	println(get())
}

//go:noinline
func inlineOtherPackage(c chan int) { println(cage.Door(c)) }
