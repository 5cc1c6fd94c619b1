//go:build loupe_glti

package glti

import "unsafe"

// The functions that the runtime pushes for the loading of agents. rt_newEnv sets the function that makes the environments of agents that
// are loaded at run time. rt_linked sets the function that initializes the agents of RegisterAgent; the runtime calls it before
// main.main. rt_atEnd adds a function that is called when the program ends.
func rt_newEnv(fn func(name string) unsafe.Pointer)
func rt_linked(init func())
func rt_atEnd(name string, end func(code int))

func init() {
	rt_newEnv(func(name string) unsafe.Pointer { return unsafe.Pointer(NewEnv(name)) })
	rt_linked(initLinked)
}

// initLinked initializes the agents of RegisterAgent.
func initLinked() {
	InitGLTI()
	linked.Lock()
	defer linked.Unlock()
	for _, a := range linked.running {
		if a.Shutdown != nil {
			rt_atEnd("in the program", Shutdown)
			return
		}
	}
}
