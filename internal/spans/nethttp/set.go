package nethttp

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package nethttp -out code.go -code code

// Library is the name of the instrumented package.
const Library = "net/http"

// oldest is the minor version of the oldest Go release that is supported.
const oldest = 19

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// Options configures a set.
type Options struct {
	// Unwinds has the set report handlers that panic or call runtime.Goexit, with the route of the request, so that neither the ends of
	// goroutines nor the matches of an http.ServeMux are required for these. It applies to engines of eBPF programs, and requires that
	// PatternLost is false.
	Unwinds bool
}

// New returns a set that reports requests to a tracker. typeName returns the name of the type at an address.
func New(t *join.Tracker, typeName func(addr uint64) (string, error), opt Options) *probe.Set {
	d := newDecoder(t, typeName)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode}
	if opt.Unwinds {
		set.Settings = replace(set.Settings, number("unwinds", 1))
		set.Probes = unwinds()
	}
	served := len(set.Probes)
	set.Probes = append(set.Probes, sets.WithHeader(probe.Declaration{
		Program: "server_begin", Since: oldest, Funcs: []string{"net/http.serverHandler.ServeHTTP"}, Words: 4, NeedsG: true, Reads: true,
		Settings: []string{"req_method", "req_url", "req_proto_major", "req_header", "req_ctx", "req_host", "req_remote_addr", "req_uri", "req_tls", "url_path"},
		Quiet:    true, Without: "requests that net/http serves are not reported",
	})...)
	set.Probes = append(set.Probes, probe.Declaration{
		Program: "server_end", Since: oldest, Funcs: []string{"net/http.(*conn).serve"}, Place: probe.AtCall, Callee: "net/http.(*conn).hijacked",
		NeedsG: true, Reads: true, Settings: []string{"conn_cur_req", "conn_hijacked", "response_req", "response_status", "response_written"},
		Quiet: true, Without: "ends of requests that net/http serves are not reported",
	}, probe.Declaration{
		Program: "server_http2_end", Since: oldest, Funcs: []string{"net/http.(*http2responseWriter).handlerDone", "net/http/internal/http2.(*responseWriter).handlerDone"},
		Words: 1, NeedsG: true, Reads: true, Settings: []string{"http2_writer_state", "http2_state_status", "http2_state_written"},
		Quiet: true, Without: "ends of HTTP/2 requests that net/http serves are not reported",
	})
	for i := range set.Probes[served:] {
		set.Probes[served+i].Alone = unwound
	}
	set.Probes = append(set.Probes, sets.WithHeader(probe.Declaration{
		Program: "client_begin", Since: oldest, Funcs: []string{"net/http.(*Transport).getConn"}, Words: 2, NeedsG: true, Reads: true,
		Settings: []string{"treq_request", "req_method", "req_url", "req_header", "req_ctx", "url_scheme", "url_host", "url_path", "url_raw_query"},
		Quiet:    true, Without: "requests that net/http sends are not reported",
	})...)
	set.Probes = append(set.Probes, propagation()...)
	set.Probes = append(set.Probes, probe.Declaration{
		Program: "client_failed", Since: oldest, Funcs: []string{"net/http.(*Transport).getConn"}, Place: probe.AtExit, Results: 2,
		Deferred: "net/http.(*Transport).getConn.func1", Callee: "net/http.(*wantConn).cancel", NeedsG: true, Reads: true,
		Quiet: true, Without: "requests that net/http cannot send are not reported",
	}, probe.Declaration{
		Program: "client_end", Since: oldest, Funcs: []string{"net/http.(*persistConn).roundTrip"}, Place: probe.AtExit, Results: 2,
		NeedsG: true, Reads: true, Settings: []string{"result_status", "result_proto_major"},
		Quiet: true, Without: "ends of requests that net/http sends are not reported",
	})
	set.Probes = append(set.Probes, http2Begin()...)
	set.Probes = append(set.Probes, probe.Declaration{
		Program: "client_http2_end", Since: oldest, Funcs: []string{"net/http.(*http2clientStream).cleanupWriteRequest", "net/http/internal/http2.(*clientStream).cleanupWriteRequest"},
		Words: 2, NeedsG: true, Reads: true, Settings: []string{"http2_stream_res", "http2_res_status"},
		Quiet: true, Without: "ends of HTTP/2 requests that net/http sends are not reported",
	})
	return set
}

// unwound are the programs that report that a handler has panicked or has ended its goroutine.
var unwound = []string{"server_unwound", "server_http2_unwound"}

// unwinds returns their declarations.
func unwinds() []probe.Declaration {
	const without = "requests whose handler panics are not reported to have ended"
	list := []probe.Declaration{{
		Program: unwound[0], Funcs: []string{"net/http.(*conn).serve.func1"}, Callee: "net/http.(*conn).hijacked",
		Settings: []string{"conn_cur_req", "response_req"},
	}, {
		Program: unwound[1], Funcs: []string{"net/http.(*http2serverConn).runHandler.func1"}, Callee: "runtime.gorecover",
	}}
	for i := range list {
		d := &list[i]
		d.Since, d.Place, d.NeedsG, d.Reads, d.Quiet, d.Only, d.Without = oldest, probe.AtCall, true, true, true, probe.KernelEngines, without
		d.Alone = unwound
	}
	return list
}

// propagation returns the declarations of the probes that add a traceparent header to the requests that are sent.
func propagation() []probe.Declaration {
	const without = "requests that net/http sends carry no traceparent header"
	const http2Moved = 27 // to another package
	http2Settings := []string{"bufio_err", "bufio_buf", "bufio_n", "http2_conn_bw", "http2_conn_limit"}
	return []probe.Declaration{{
		Program: "request_write", Since: oldest, Funcs: []string{"net/http.(*Request).write"}, Words: 1, NeedsG: true, Reads: true,
		Propagates: true, Fence: probe.Untimed, Quiet: true, Without: without,
	}, {
		Program: "header_write", Since: oldest, Funcs: []string{"net/http.(*Request).write"}, Place: probe.AtCall, Callee: "net/http.Header.writeSubset",
		NeedsG: true, Reads: true, Settings: []string{"bufio_err", "bufio_buf", "bufio_n"},
		Propagates: true, Fence: probe.Unfenced, Quiet: true, Without: without,
	}, {
		Program: "http2_write", Since: oldest, Words: 2, NeedsG: true, Reads: true,
		Funcs:      []string{"net/http.(*http2clientStream).encodeAndWriteHeaders", "net/http/internal/http2.(*clientStream).encodeAndWriteHeaders"},
		Propagates: true, Fence: probe.Untimed, Quiet: true, Without: without,
	}, {
		Program: "http2_header", Since: oldest, Until: http2Moved, Funcs: []string{"net/http.(*http2clientStream).encodeAndWriteHeaders"},
		Place: probe.AtCall, Callee: "net/http.(*http2ClientConn).writeHeaders", NeedsG: true, Reads: true, Settings: http2Settings,
		Propagates: true, Fence: probe.Unfenced, Quiet: true, Without: without,
	}, {
		Program: "http2_header", Since: http2Moved, Funcs: []string{"net/http/internal/http2.(*clientStream).encodeAndWriteHeaders"},
		Place: probe.AtCall, Callee: "net/http/internal/http2.(*ClientConn).writeHeaders", NeedsG: true, Reads: true, Settings: http2Settings,
		Propagates: true, Fence: probe.Unfenced, Quiet: true, Without: without,
	}}
}

// http2Begin returns the declarations of the probe that reports requests sent by HTTP/2. The method has another name in older releases.
func http2Begin() []probe.Declaration {
	d := probe.Declaration{
		Program: "client_http2_begin", Words: 2, NeedsG: true, Reads: true,
		Settings: []string{"http2_req_method", "http2_req_url", "http2_req_header", "http2_req_ctx", "url_scheme", "url_host", "url_path", "url_raw_query"},
		Quiet:    true, Without: "HTTP/2 requests that net/http sends are not reported",
	}
	const renamed = 23
	var all []probe.Declaration
	for _, one := range sets.WithHeader(d) {
		one.Since = max(one.Since, renamed)
		one.Funcs = []string{"net/http.(*http2ClientConn).roundTrip", "net/http/internal/http2.(*ClientConn).roundTrip"}
		all = append(all, one)
	}
	old := sets.WithHeader(d)[0]
	old.Since, old.Until, old.Funcs = oldest, renamed, []string{"net/http.(*http2ClientConn).RoundTrip"}
	return append(all, old)
}

// number returns a setting that is the same for each program.
func number(name string, n uint64) probe.Setting {
	return probe.Setting{Name: name, Value: func(probe.Program) (uint64, error) { return n, nil }}
}

// uriOf returns the setting for the field RequestURI of a struct, which follows RemoteAddr.
func uriOf(request string) probe.Setting {
	const stringSize = 16
	s := sets.Field("req_uri", request+".RemoteAddr")
	s.Plus = func(probe.Program) uint64 { return stringSize }
	return s
}

// settings are the offsets of fields and other numbers of the C half.
func settings() []probe.Setting {
	field := sets.Field
	conn := field("conn_cur_req", "net/http.conn.curReq")
	conn.Plus = func(p probe.Program) uint64 {
		if p.Binary().Version().Minor < 20 { // an atomic.Value, whose second word is the pointer
			return 8
		}
		return 0
	}
	return append([]probe.Setting{
		field("req_method", "net/http.Request.Method"), field("req_url", "net/http.Request.URL"),
		field("req_proto_major", "net/http.Request.ProtoMajor"), field("req_header", "net/http.Request.Header"), field("req_ctx", "net/http.Request.ctx"),
		field("req_host", "net/http.Request.Host"), field("req_remote_addr", "net/http.Request.RemoteAddr"), field("req_tls", "net/http.Request.TLS"), uriOf("net/http.Request"),
		field("req_pattern", "net/http.Request.Pattern"), field("req_pat", "net/http.Request.pat"), field("pattern_str", "net/http.pattern.str"),
		field("url_scheme", "net/url.URL.Scheme"), field("url_host", "net/url.URL.Host"), field("url_path", "net/url.URL.Path"),
		field("url_raw_query", "net/url.URL.RawQuery"),
		conn, field("conn_hijacked", "net/http.conn.hijackedv"),
		field("response_req", "net/http.response.req"), field("response_status", "net/http.response.status"), field("response_written", "net/http.response.written"),
		field("http2_writer_state", "net/http.http2responseWriter.rws", "net/http/internal/http2.responseWriter.rws"),
		field("http2_state_req", "net/http.http2responseWriterState.req"), // later a part of it
		field("http2_state_status", "net/http.http2responseWriterState.status", "net/http/internal/http2.responseWriterState.status"),
		field("http2_state_written", "net/http.http2responseWriterState.wroteBytes", "net/http/internal/http2.responseWriterState.wroteBytes"),
		field("bufio_err", "bufio.Writer.err"), field("bufio_buf", "bufio.Writer.buf"), field("bufio_n", "bufio.Writer.n"),
		field("treq_request", "net/http.transportRequest.Request"), field("result_status", "net/http.Response.StatusCode"),
		field("result_proto_major", "net/http.Response.ProtoMajor"),
		field("http2_req_method", "net/http/internal/http2.ClientRequest.Method", "net/http.Request.Method"),
		field("http2_req_url", "net/http/internal/http2.ClientRequest.URL", "net/http.Request.URL"),
		field("http2_req_header", "net/http/internal/http2.ClientRequest.Header", "net/http.Request.Header"),
		field("http2_req_ctx", "net/http/internal/http2.ClientRequest.Context", "net/http.Request.ctx"),
		field("http2_conn_bw", "net/http.http2ClientConn.bw", "net/http/internal/http2.ClientConn.bw"),
		field("http2_conn_limit", "net/http.http2ClientConn.peerMaxHeaderListSize", "net/http/internal/http2.ClientConn.peerMaxHeaderListSize"),
		field("http2_stream_res", "net/http.http2clientStream.res", "net/http/internal/http2.clientStream.res"),
		field("http2_res_status", "net/http/internal/http2.ClientResponse.StatusCode", "net/http.Response.StatusCode"),
		{Name: "route", Value: route}, number("unwinds", 0),
	}, sets.HeaderSettings()...)
}

// route returns where the route of a request is: enum route in C.
func route(p probe.Program) (uint64, error) {
	switch minor := p.Binary().Version().Minor; {
	case minor >= 23:
		return 1, nil
	case minor == 22:
		return 2, nil
	}
	return 0, nil
}
