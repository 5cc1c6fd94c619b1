// Package nethttp is a set of probes for package net/http: the requests that a program serves and those that it sends.
//
// The central function is [New].
package nethttp
