// Package nethttp is a set of probes for package net/http: the requests that a program serves and those that it sends. Further sets report
// those of package golang.org/x/net/http2 from v0.1.0 on, which a program can use itself, for example without TLS by package h2c, or
// configure net/http to use. Their library is net/http, too.
//
// A connection that begins with HTTP/2 in a handler, as package h2c serves it, is no request. One that is upgraded to HTTP/2 belongs to the
// request that has asked for it: that ends with the connection. A request that a transport of golang.org/x/net/http2 cannot send, because it
// gets no connection, is not reported, unless the package calls net/http, as it does from v0.54.0 on with Go 1.27.
//
// With engine inline, requests that are sent by HTTP/1.1 and HTTP/2 carry the contexts of their spans, if the session propagates contexts.
// Requests that get no header are counted: those whose header does not fit into the buffer of the connection, and with HTTP/2 those with
// more than 2 KB of encoded headers, and those to peers that accept less than 64 KB of headers. They carry on the tracestate and the baggage
// of the request that they belong to, if these fit, too.
//
// Requests by which the exporters of OpenTelemetry send the telemetry of the program are reported, but not sampled.
//
// The central functions are [New] and [NewModule].
package nethttp
