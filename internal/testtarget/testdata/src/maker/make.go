package main

import (
	"strconv"
	"sync"
)

// kept holds what was made last, so that it is on the heap.
var kept struct {
	bytes     []byte
	ints      []int
	pointers  []*int
	table     map[string]int
	text      string
	any       interface{}
	function  func() int
	tiny      *int32
	list      *node
	structure interface{}
	channel   chan [3]int
}

type node struct {
	value int
	next  *node
}

type (
	plain [5]int64
	mixed struct {
		a [3]int64
		p *int
		b [7]int64
	}
	big struct {
		p [80]*int
	}
	huge struct {
		p *int
		a [40000]byte
	}
	empty struct{}
)

// round makes objects of all kinds.
func round(n int) {
	for i := 0; i < n; i++ {
		makeBytes(i)
		makePointers(i)
		makeAppend(i)
		makeTable(i)
		makeText(i)
		makeInterface(i)
		makeClosure(i)
		makeTiny(i)
		makeStructs(i)
		makeLarge(i)
		makeGoroutines(i)
		makeChannel(i)
		makeEmpty(i)
	}
}

//go:noinline
func makeBytes(i int) {
	for _, size := range []int{16, 17, 24, 25, 33, 100, 512, 513, 1000, 1016, 1017, 1020, 1024, 1025, 1153, 2048, 5000, 10000, 32000, 32752, 32760, 32761, 32768} {
		kept.bytes = make([]byte, size)
	}
	kept.bytes = make([]byte, 16+(i*97)%32760)
}

//go:noinline
func makePointers(i int) {
	for _, n := range []int{1, 2, 3, 7, 63, 64, 65, 66, 127, 128, 129, 500, 4000, 4094, 4095, 4096, 4097, 20000} {
		kept.pointers = make([]*int, n)
	}
	kept.pointers = make([]*int, 1+(i*31)%4200)
}

//go:noinline
func makeAppend(i int) {
	kept.ints = nil
	for j := 0; j < 300+i%7; j++ {
		kept.ints = append(kept.ints, j)
	}
}

//go:noinline
func makeTable(i int) {
	kept.table = map[string]int{}
	for j := 0; j < 40; j++ {
		kept.table[strconv.Itoa(j*1000000+i)] = j
	}
}

//go:noinline
func makeText(i int) {
	kept.text = "text "
	for j := 0; j < 20; j++ {
		kept.text += strconv.Itoa(100 + j)
	}
	kept.bytes = []byte(kept.text)
}

//go:noinline
func makeInterface(i int) {
	kept.any = i + 1000
	kept.any = kept.text
	kept.any = [4]int{i}
}

//go:noinline
func makeClosure(i int) {
	var a [10]int
	kept.function = func() int { a[3]++; return i + a[3] }
}

//go:noinline
func makeTiny(i int) {
	for j := 0; j < 10; j++ {
		kept.tiny = new(int32)
		kept.any = int8(j) - 100
		kept.bytes = make([]byte, 1+(i+j)%15)
		kept.any = int64(j) + 1000
	}
}

//go:noinline
func makeStructs(i int) {
	kept.structure = new(plain)
	kept.structure = new(mixed)
	kept.structure = new(big)
	kept.structure = new([3]*int)
	kept.structure = new([5]*int)
	kept.structure = new([9]*int)
	kept.structure = new([10]*int)
	kept.structure = new([2]int64)
	kept.structure = new([3]int64)
	kept.structure = new([8]int64)
	kept.structure = new([10]int64)
	kept.structure = make([]mixed, 3)
	kept.list = nil
	for j := 0; j < 10; j++ {
		kept.list = &node{j, kept.list}
	}
}

//go:noinline
func makeLarge(i int) {
	kept.bytes = make([]byte, 32769+i)
	kept.bytes = make([]byte, 100000)
	kept.structure = new(huge)
}

//go:noinline
func makeGoroutines(i int) {
	var wg sync.WaitGroup
	for j := 0; j < 3; j++ {
		wg.Add(1)
		go func(j int) {
			kept.text = strconv.Itoa(i + j + 1000)
			wg.Done()
		}(j)
		wg.Wait()
	}
}

//go:noinline
func makeChannel(i int) {
	kept.channel = make(chan [3]int, 1+i%5)
}

//go:noinline
func makeEmpty(i int) {
	kept.structure = new(empty)
	kept.bytes = make([]byte, i-i)
}
