// Command alloc is a target of the events benchmark that keeps the garbage collector busy. Goroutines build trees, in
// which each node has a slice, and indexes of these trees. They send them through a channel to other goroutines, which
// search them and drop them. Commands on standard input control the program (see package control). An operation is a
// tree.
package main

import (
	"log"
	"sync/atomic"

	"github.com/loupe-go/loupe/bench/events/control"
)

const (
	builders = 4
	readers  = 2
	depth    = 5
	payload  = 48 // bytes of a node
)

type node struct {
	left, right *node
	text        []byte
}

// tree is what is passed on.
type tree struct {
	root  *node
	index map[int]*node
}

func main() {
	trees := make(chan *tree, builders)
	for range builders {
		go build(trees)
	}
	var read atomic.Int64
	for range readers {
		go look(trees, &read)
	}
	control.Serve("ready", read.Load)
}

func build(trees chan<- *tree) {
	for {
		t := &tree{index: map[int]*node{}}
		t.root = t.grow(depth)
		trees <- t
	}
}

func (t *tree) grow(depth int) *node {
	n := &node{text: make([]byte, payload)}
	if depth > 1 {
		n.left, n.right = t.grow(depth-1), t.grow(depth-1)
	} else {
		t.index[len(t.index)] = n
	}
	return n
}

func look(trees <-chan *tree, read *atomic.Int64) {
	for t := range trees {
		if n := t.root.bytes(); n != (1<<depth-1)*payload || len(t.index) != 1<<(depth-1) {
			log.Fatalf("a tree of %d bytes and %d leaves", n, len(t.index))
		}
		read.Add(1)
	}
}

func (n *node) bytes() int {
	if n == nil {
		return 0
	}
	return len(n.text) + n.left.bytes() + n.right.bytes()
}
