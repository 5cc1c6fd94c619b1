// Package nethttp is a set of probes for package net/http: the requests that a program serves and those that it sends.
//
// With engine inline, requests that are sent by HTTP/1.1 and HTTP/2 carry the contexts of their spans, if the session propagates contexts.
// Requests that get no header are counted: those whose header does not fit into the buffer of the connection, and with HTTP/2 those with
// more than 2 KB of encoded headers, and those to peers that accept less than 64 KB of headers. They carry on the tracestate and the baggage
// of the request that they belong to, if these fit, too.
//
// The central function is [New].
package nethttp
