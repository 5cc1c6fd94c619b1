package nethttp

import (
	"slices"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

// Versions of module golang.org/x/net in which package http2 changed.
const (
	module        = "golang.org/x/net"
	pkg           = module + "/http2"
	oldestModule  = "v0.1.0"
	moduleStreams = "v0.23.0" // (*ClientConn).RoundTrip calls roundTrip, which net/http calls, too
	moduleWrapped = "v0.54.0" // roundTrip calls internalRoundTrip, or since Go 1.27 net/http
)

// wrapped is the minor version of the first Go release with which package http2 of the module only calls net/http.
const wrapped = 27

// NewModule returns the sets for requests that package golang.org/x/net/http2 serves and sends: used directly, or by net/http if the
// program has configured that. They report requests like those of [New], which the tracker also has.
func NewModule(t *join.Tracker, typeName func(addr uint64) (string, error), bin *gobin.Binary) []*probe.Set {
	d := newDecoder(t, typeName)
	list := []*probe.Set{{Name: pkg, Code: &code, Settings: moduleSettings(), Decode: d.decode, Probes: moduleProbes()}}
	// Handlers get requests from net/http, but not by way of serverHandler. Other programs do not require the probe.
	if _, ok := bin.LookupFunc(pkg + ".(*Server).serveConn"); ok && bin.Version().Minor >= wrapped {
		list = append(list, &probe.Set{Name: "net/http/internal/http2", Code: &code, Settings: wrappedSettings(), Decode: d.decode,
			Probes: handlerBegin("net/http/internal/http2")})
	}
	return list
}

// handlerBegin returns the declarations of the probe where a package calls a handler.
func handlerBegin(pkg string) []probe.Declaration {
	return sets.WithHeader(probe.Declaration{
		Program: "handler_begin", Since: oldest, Funcs: []string{pkg + ".(*serverConn).runHandler"}, Words: 3, NeedsG: true, Reads: true,
		Settings: []string{"req_method", "req_url", "req_proto_major", "req_header", "req_ctx", "req_host", "req_remote_addr", "req_uri", "req_tls", "url_path"},
		Quiet:    true, Without: "requests that " + pkg + " serves are not reported",
	})
}

// moduleProbes returns the declarations for the module. Before it calls net/http, the functions are those of net/http with other names.
func moduleProbes() []probe.Declaration {
	const (
		served  = "ends of requests that " + pkg + " serves are not reported"
		sent    = "requests that " + pkg + " sends are not reported"
		headers = "requests that " + pkg + " sends carry no traceparent header"
	)
	probes := append(handlerBegin(pkg), probe.Declaration{
		Program: "server_http2_end", Since: oldest, Funcs: []string{pkg + ".(*responseWriter).handlerDone"}, Words: 1,
		Settings: []string{"http2_writer_state", "http2_state_status", "http2_state_written"}, Without: served,
	})
	begin := probe.Declaration{
		Program: "client_http2_begin", Words: 2, Without: sent,
		Settings: []string{"http2_req_method", "http2_req_url", "http2_req_header", "http2_req_ctx", "url_scheme", "url_host", "url_path", "url_raw_query"},
	}
	for _, d := range sets.WithHeader(begin) {
		for _, v := range []struct{ since, until, method string }{
			{oldestModule, moduleStreams, "RoundTrip"}, {moduleStreams, moduleWrapped, "roundTrip"}, {moduleWrapped, "", "internalRoundTrip"},
		} {
			d.Modules, d.Funcs = []probe.Module{{Path: module, Since: v.since, Until: v.until}}, []string{pkg + ".(*ClientConn)." + v.method}
			d.Since = max(d.Since, oldest)
			probes = append(probes, d)
		}
	}
	probes = append(probes, probe.Declaration{
		Program: "http2_write", Since: oldest, Words: 2, Funcs: []string{pkg + ".(*clientStream).encodeAndWriteHeaders"},
		Propagates: true, Fence: probe.Untimed, Without: headers,
	}, probe.Declaration{
		Program: "http2_header", Since: oldest, Funcs: []string{pkg + ".(*clientStream).encodeAndWriteHeaders"},
		Place: probe.AtCall, Callee: pkg + ".(*ClientConn).writeHeaders", Settings: []string{"bufio_err", "bufio_buf", "bufio_n", "http2_conn_bw", "http2_conn_limit"},
		Propagates: true, Fence: probe.Unfenced, Without: headers,
	}, probe.Declaration{
		Program: "client_http2_end", Since: oldest, Funcs: []string{pkg + ".(*clientStream).cleanupWriteRequest"}, Words: 2,
		Settings: []string{"http2_stream_res", "http2_res_status"}, Without: sent,
	})
	for i := range probes {
		d := &probes[i]
		if d.NeedsG, d.Reads, d.Quiet = true, true, true; d.Modules == nil {
			d.Modules = []probe.Module{{Path: module, Since: oldestModule}}
		}
	}
	return probes
}

// moduleSettings are the settings of the C half for the module.
func moduleSettings() []probe.Setting {
	return replace(settings(),
		sets.Field("http2_writer_state", pkg+".responseWriter.rws"),
		sets.Field("http2_state_status", pkg+".responseWriterState.status"), sets.Field("http2_state_written", pkg+".responseWriterState.wroteBytes"),
		sets.Field("http2_req_method", "net/http.Request.Method"), sets.Field("http2_req_url", "net/http.Request.URL"),
		sets.Field("http2_req_header", "net/http.Request.Header"), sets.Field("http2_req_ctx", "net/http.Request.ctx"),
		sets.Field("http2_conn_bw", pkg+".ClientConn.bw"), sets.Field("http2_conn_limit", pkg+".ClientConn.peerMaxHeaderListSize"),
		sets.Field("http2_stream_res", pkg+".clientStream.res"), sets.Field("http2_res_status", "net/http.Response.StatusCode"),
		sets.Field("http2_state_req", pkg+".responseWriterState.req"))
}

// wrappedSettings are the same for the requests that net/http passes to handlers for the module.
func wrappedSettings() []probe.Setting {
	const server = "net/http/internal/http2.ServerRequest"
	const request = server + "."
	return replace(settings(), uriOf(server),
		sets.Field("req_method", request+"Method"), sets.Field("req_url", request+"URL"), sets.Field("req_proto_major", request+"ProtoMajor"),
		sets.Field("req_header", request+"Header"), sets.Field("req_ctx", request+"Context"), sets.Field("req_host", request+"Host"),
		sets.Field("req_remote_addr", request+"RemoteAddr"), sets.Field("req_tls", request+"TLS"))
}

// replace replaces settings by others with the same names.
func replace(list []probe.Setting, by ...probe.Setting) []probe.Setting {
	for _, s := range by {
		list[slices.IndexFunc(list, func(old probe.Setting) bool { return old.Name == s.Name })] = s
	}
	return list
}
