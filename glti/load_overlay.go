//go:build loupe_glti

package glti

import "unsafe"

// rt_newEnv sets the function that makes the environments of agents that are loaded at run time.
func rt_newEnv(fn func(name string) unsafe.Pointer)

func init() {
	rt_newEnv(func(name string) unsafe.Pointer { return unsafe.Pointer(NewEnv(name)) })
}
