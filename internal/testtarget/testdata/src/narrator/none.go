//go:build !sdk
// +build !sdk

package main

func install() string { return "error built without the tag sdk" }
