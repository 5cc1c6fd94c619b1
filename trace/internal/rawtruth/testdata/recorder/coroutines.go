//go:build go1.23

package main

import "iter"

func init() {
	coroutines = func() {
		next, stop := iter.Pull(func(yield func(int) bool) {
			for i := 0; i < 10 && yield(i); i++ {
			}
		})
		defer stop()
		for {
			if _, ok := next(); !ok {
				return
			}
		}
	}
}
