//go:build loupe_glti

package main

import (
	"time"

	"github.com/loupe-go/loupe/glti"
)

func init() {
	enable = func(mask uint64) {
		glti.EnableMask(mask)
		go func() {
			glti.Quiet()
			for {
				glti.Drain()
				time.Sleep(time.Millisecond)
			}
		}()
	}
}
