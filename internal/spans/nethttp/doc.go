// Package nethttp is a set of probes for package net/http: the requests that a program serves and those that it sends.
//
// With engine inline, requests that are sent by HTTP/1.1 carry the contexts of their spans, if the session propagates contexts. A
// request whose header does not fit into the buffer of the connection is counted. Requests that are sent by HTTP/2 get no header.
//
// The central function is [New].
package nethttp
