//go:build kafka0.4.1

package main

func (c *courier) mixed(...string) string { return "error not in this version" }
