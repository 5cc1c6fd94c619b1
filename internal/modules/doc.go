// Package modules tests the modules that other programs import. A module builds
// with the Go releases that its go.mod permits and with other systems than
// Linux, and requires no module but those that are listed here.
package modules
