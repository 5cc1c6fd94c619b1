//go:build !bare
// +build !bare

package main

import (
	"os"
	"runtime/pprof"
)

// writeProfile writes a profile as runtime/pprof does.
func writeProfile(args []string) string {
	f, err := os.Create(args[1])
	if err == nil {
		err = pprof.Lookup(args[0]).WriteTo(f, 0)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return "error " + err.Error()
	}
	return "written"
}
