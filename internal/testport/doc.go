// Package testport finds ports for the servers that tests start. It is not part of package testcmd, because it requires package net, by
// which an executable with cgo is linked dynamically: some tests run their own executable where none such can start.
package testport
