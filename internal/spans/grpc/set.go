// Package grpc is a set of probes for module google.golang.org/grpc: the RPCs that a program serves and those that it sends, unary and
// streaming.
//
// The span of an RPC that the program serves begins before its handler, and ends when the final status is written. If the connection is
// lost, gRPC may write no status. The span then ends with its goroutine.
//
// The span of an RPC that the program sends begins after the interceptors of the client, before the stream is created, and ends with
// the stream. It includes retries. From v1.37.0 until v1.78.0 it begins after the name of the server has been resolved. An RPC that fails
// before that has no span in these versions.
//
// With engine inline, RPCs that the program sends carry the contexts of their spans, if the session propagates contexts. An RPC gets no
// header if it has more than 64 others, or if they have more than 4 KB; these are counted. When gRPC retries an RPC that a server has
// refused, the retry has no header. The tracestate and the baggage of an RPC that is served are carried on if the RPC that is sent has less
// than 2 KB of headers.
//
// RPCs by which the exporters of OpenTelemetry send the telemetry of the program are reported, but not sampled.
//
// The central function is [New].
package grpc

import (
	"fmt"
	"strings"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package grpc -out code.go -code code

// Library is the path of the instrumented module.
const Library = "google.golang.org/grpc"

const (
	oldest     = 19        // the minor version of the oldest Go release that is supported
	growsByCap = 20        // that of the first release whose growslice has the old capacity as its third argument
	oldestMod  = "v1.14.0" // the oldest version of the module that is supported
	transport  = Library + "/internal/transport"
)

// Versions in which what creates a stream changed.
const (
	paramsSince = "v1.37.0" // newClientStreamWithParams does it
	alwaysSince = "v1.78.0" // newClientStream defers a function for each call
)

const noHeaders = "RPCs that gRPC sends carry no traceparent header"

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// New returns a set that reports RPCs to a tracker. typeName returns the name of the type at an address.
func New(t *join.Tracker, typeName func(addr uint64) (string, error)) *probe.Set {
	d := &decoder{tracker: t, typeName: typeName, newest: map[uint64]uint64{}}
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode}
	set.Probes = append(serverProbes(), clientProbes()...)
	return set
}

func serverProbes() []probe.Declaration {
	supported := []probe.Module{{Path: Library, Since: oldestMod}}
	begin := sets.WithHeader(probe.Declaration{
		Program: "server_begin", Since: oldest, Modules: supported, Funcs: []string{Library + ".(*Server).handleStream"}, Words: 4, NeedsG: true, Reads: true,
		Settings: []string{"stream_pointer", "stream_method", "stream_ctx", "server_remote"},
		Quiet:    true, Without: "RPCs that gRPC serves are not reported",
	})
	return append(begin, probe.Declaration{
		Program: "server_end", Since: oldest, Modules: supported, Words: 3, NeedsG: true, Reads: true,
		Funcs: []string{
			transport + ".(*http2Server).WriteStatus", transport + ".(*serverHandlerTransport).WriteStatus", // before v1.69.0
			transport + ".(*http2Server).writeStatus", transport + ".(*serverHandlerTransport).writeStatus",
		},
		Settings: []string{"status_code", "status_message"},
		Quiet:    true, Without: "ends of RPCs that gRPC serves are not reported",
	})
}

func clientProbes() []probe.Declaration {
	supported := []probe.Module{{Path: Library, Since: oldestMod}}
	create, createWith := Library+".newClientStream", Library+".newClientStreamWithParams"
	status := []string{"status_code", "status_message", "error_status"}
	probes := []probe.Declaration{{
		Program: "client_stream", Since: oldest, Modules: supported, Funcs: []string{create, createWith}, Place: probe.AtCall,
		Callee: Library + ".(*clientStream).withRetry", NeedsG: true,
		Quiet: true, Without: "ends of RPCs that gRPC sends are not reported",
	}, {
		Program: "client_end", Since: oldest, Modules: supported, Funcs: []string{Library + ".(*clientStream).finish"}, Words: 3, NeedsG: true, Reads: true,
		Settings: append([]string{"call_attempt", "call_finished", "attempt_transport", "client_remote"}, status...),
		Quiet:    true, Without: "ends of RPCs that gRPC sends are not reported",
	}, {
		Program: "fields_make", Since: oldest, Modules: supported, Funcs: []string{transport + ".(*http2Client).createHeaderFields"}, Place: probe.AtCall,
		Callee: "runtime.makeslice", NeedsG: true, Reads: true, Propagates: true, Fence: probe.Untimed,
		Quiet: true, Without: noHeaders,
	}, {
		Program: "fields_grow", Since: growsByCap, Modules: supported, Funcs: []string{transport + ".(*http2Client).createHeaderFields"}, Place: probe.AtCall,
		Callee: "runtime.growslice", NeedsG: true, Reads: true, Propagates: true, Fence: probe.Untimed,
		Quiet: true, Without: noHeaders,
	}, {
		Program: "fields_grow_old", Since: oldest, Until: growsByCap, Modules: supported, Funcs: []string{transport + ".(*http2Client).createHeaderFields"}, Place: probe.AtCall,
		Callee: "runtime.growslice", NeedsG: true, Reads: true, Propagates: true, Fence: probe.Untimed,
		Quiet: true, Without: noHeaders,
	}, {
		Program: "fields_send", Since: oldest, Modules: supported, Funcs: []string{transport + ".(*http2Client).NewStream"}, Place: probe.AtCall,
		Callee: transport + ".(*controlBuffer).executeAndPut", NeedsG: true, Reads: true, Propagates: true, Fence: probe.Unfenced,
		Settings: []string{"header_fields"}, Quiet: true, Without: noHeaders,
	}}
	for _, v := range []struct{ since, until, create, deferred, callee string }{
		{oldestMod, paramsSince, create, create + ".func2", ""}, // func1 is deferred only if the program uses channelz
		{paramsSince, alwaysSince, createWith, createWith + ".func1", ""},
		{alwaysSince, "", create, create + ".func1", Library + ".endOfClientStream"},
	} {
		versions := []probe.Module{{Path: Library, Since: v.since, Until: v.until}}
		probes = append(probes, probe.Declaration{
			Program: "client_begin", Since: oldest, Modules: versions, Funcs: []string{v.create}, Words: 6, NeedsG: true, Reads: true,
			Settings: []string{"conn_target"}, Quiet: true, Without: "RPCs that gRPC sends are not reported",
		}, probe.Declaration{
			Program: "client_failed", Since: oldest, Modules: versions, Funcs: []string{v.create}, Place: probe.AtExit, Results: 4,
			Deferred: v.deferred, Callee: v.callee, NeedsG: true, Reads: true, Settings: status,
			Quiet: true, Without: "RPCs that gRPC cannot send are not reported",
		})
	}
	return probes
}

// settings are the offsets of fields and other numbers of the C half.
func settings() []probe.Setting {
	field := sets.Field
	message := "google.golang.org/genproto/googleapis/rpc/status.Status."
	return append([]probe.Setting{
		byVersion("stream_pointer", "v1.69.0", "v1.77.0"),
		field("stream_method", transport+".Stream.method"), field("stream_ctx", transport+".Stream.ctx"),
		field("server_remote", transport+".http2Server.remoteAddr", transport+".http2Server.peer.Addr", transport+".http2Server.peer"),
		field("server_local", transport+".http2Server.localAddr", transport+".http2Server.peer.LocalAddr"),
		field("client_remote", transport+".http2Client.remoteAddr"),
		field("conn_target", Library+".ClientConn.target"),
		field("call_attempt", Library+".clientStream.attempt"), field("call_finished", Library+".clientStream.finished"),
		field("attempt_transport", Library+".csAttempt.t", Library+".csAttempt.transport"),
		field("header_fields", transport+".headerFrame.hf", transport+".clientHeaders.hf"),
		field("status_code", message+"Code"), field("status_message", message+"Message"),
		byVersion("error_status", "v1.30.0", "v1.40.0"),
		{Name: "send_start", Value: rangeOf("SendMsg", false)}, {Name: "send_size", Value: rangeOf("SendMsg", true)},
		{Name: "receive_start", Value: rangeOf("RecvMsg", false)}, {Name: "receive_size", Value: rangeOf("RecvMsg", true)},
	}, sets.HeaderSettings()...)
}

// byVersion returns a setting that is the number of changes before a version of the module.
func byVersion(name string, changes ...string) probe.Setting {
	s := probe.Setting{Name: name}
	since := oldestMod
	for i, until := range append(changes, "") {
		s.Offsets = append(s.Offsets, probe.Offset{Module: probe.Module{Path: Library, Since: since, Until: until}, Offset: uint64(i)})
		since = until
	}
	return s
}

// rangeOf returns a function that returns the address of the functions that a method of a server's stream defers, or their size.
func rangeOf(method string, size bool) func(probe.Program) (uint64, error) {
	name := fmt.Sprintf("%s.(*serverStream).%s", Library, method)
	prefix := name + ".func"
	return func(p probe.Program) (uint64, error) {
		if _, ok := p.Binary().LookupFunc(name); !ok {
			return 0, nil
		}
		var start, end uint64
		for f := range p.Binary().Functions() {
			if !strings.HasPrefix(f.Name, prefix) {
				continue
			}
			if start == 0 || f.Entry < start {
				start = f.Entry
			}
			end = max(end, f.End)
		}
		if size {
			return end - start, nil
		}
		return start + p.LoadBias(), nil
	}
}
