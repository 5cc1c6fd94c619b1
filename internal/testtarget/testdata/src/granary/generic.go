//go:build go1.18
// +build go1.18

package main

type store[T any] struct{ items []*T }

//go:noinline
func (s *store[T]) add(v T) { s.items = append(s.items, &v) }

// generic allocates in a method of a generic type.
func generic(n int) interface{} {
	var ints store[int]
	ints.add(n)
	var grains store[grain]
	grains.add(grain{})
	return []interface{}{ints, grains}
}
