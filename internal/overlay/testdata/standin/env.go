package glti

import "unsafe"

// GLTIEnv stands in for the environment of an agent.
type GLTIEnv struct {
	GltiVersion string
	GoVersion   string
	Name        string
}

func rt_newEnv(fn func(name string) unsafe.Pointer)
func rt_linked(init func())
func rt_atEnd(name string, end func(code int))

func init() {
	rt_newEnv(func(name string) unsafe.Pointer { return unsafe.Pointer(&GLTIEnv{GltiVersion: "1.0", Name: name}) })
}

// Link stands in for RegisterAgent.
func Link(init func(env *GLTIEnv), shutdown func(code int)) {
	rt_linked(func() {
		init(&GLTIEnv{GltiVersion: "1.0"})
		rt_atEnd("linked", shutdown)
	})
}
