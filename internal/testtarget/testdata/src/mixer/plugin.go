//go:build cgo && mixerplugin
// +build cgo,mixerplugin

package main

import (
	"os"
	"path/filepath"
	"plugin"
)

func init() { commands["load"] = load }

func load([]string) string {
	exe, err := os.Executable()
	if err != nil {
		return "unloadable " + err.Error()
	}
	p, err := plugin.Open(filepath.Join(filepath.Dir(exe), "plugged.so"))
	if err != nil {
		return "unloadable " + err.Error()
	}
	work, err := p.Lookup("Work")
	if err != nil {
		return "unloadable " + err.Error()
	}
	k := &kind{name: "plugged", work: func() {
		for n := uint64(1); n < 20; n++ {
			if got := work.(func(uint64) uint64)(n); got != n*(n+1)/2 {
				fail("plugged: %d for %d", got, n)
			}
		}
	}}
	kinds = append(kinds, k)
	k.start()
	return "loaded"
}
