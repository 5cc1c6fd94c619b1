//go:build !go1.16
// +build !go1.16

package main

func prepareMetrics() {}
func readMetrics()    {}
func appendMetrics()  {}
