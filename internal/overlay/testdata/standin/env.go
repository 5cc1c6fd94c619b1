package glti

import "unsafe"

// GLTIEnv stands in for the environment of an agent.
type GLTIEnv struct {
	GltiVersion string
	GoVersion   string
	Name        string
}

func rt_newEnv(fn func(name string) unsafe.Pointer)

func init() {
	rt_newEnv(func(name string) unsafe.Pointer { return unsafe.Pointer(&GLTIEnv{GltiVersion: "1.0", Name: name}) })
}
