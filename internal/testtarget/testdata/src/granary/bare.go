//go:build bare
// +build bare

package main

// writeProfile would make the linker keep runtime.MemProfile.
func writeProfile([]string) string { return "error no profiles" }
