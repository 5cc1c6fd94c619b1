//go:build go1.18
// +build go1.18

package main

func init() { exhibit(showGenerics) }

func showGenerics() {
	go genericFunc(1)
	go genericFunc("text")
	go genericFunc([]animal{})
	go genericPair[string, map[int]*animal]("k", nil)
	s := &shelf[int, string]{c: make(chan int)}
	go s.take(1)
	go s.closure()
	var t taker[int] = s
	go genericInterface(t)
	f := s.take
	go f(2)
	go genericInlined(never)
	go genericConstrained[*animal](&animal{c: never})
}

//go:noinline
func genericFunc[T any](v T) { <-never }

//go:noinline
func genericPair[K comparable, V any](k K, v V) {
	func() { <-never }()
}

type taker[T any] interface{ take(T) }

type shelf[T any, U comparable] struct {
	c chan T
	u U
}

//go:noinline
func (s *shelf[T, U]) take(v T) { <-s.c }

func (s *shelf[T, U]) closure() {
	f := func() T { return <-s.c }
	f()
}

//go:noinline
func genericInterface[T any](t taker[T]) {
	var zero T
	t.take(zero)
}

func genericLeaf[T any](c chan T) T { return <-c }

func genericMiddle[T any](c chan T) T {
	return genericLeaf(c)
}

//go:noinline
func genericInlined(c chan int) { println(genericMiddle(c)) }

//go:noinline
func genericConstrained[T rester](t T) { t.rest(13) }
