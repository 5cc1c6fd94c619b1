package grpc

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	serverBegin = iota
	serverEnd
	clientBegin
	clientStream
	clientFailed
	clientEnd
	clientNoHeader
)

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	newest   map[uint64]uint64 // by goroutine: the object of its newest RPC, until that ends
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case serverBegin:
		d.serverBegin(n)
	case serverEnd:
		d.serverEnd(n)
	case clientBegin:
		d.clientBegin(n)
	case clientStream:
		d.clientStream(n)
	case clientFailed:
		d.clientFailed(n)
	case clientEnd:
		d.clientEnd(n)
	case clientNoHeader:
		sets.Missing(d.tracker, n)
	}
}

// is reports whether the type at an address has a name.
func (d *decoder) is(addr uint64, name string) bool {
	if addr == 0 {
		return false
	}
	got, err := d.typeName(addr)
	return err == nil && got == name
}

func (d *decoder) serverBegin(n *probe.Note) {
	context := sets.Context(n)
	stream, passed, key, found, transport := n.Word(), n.Word(), n.Word(), n.Word(), n.Word()
	method, traceparent, agent := n.Text(), n.Text(), n.Text()
	peer, local := d.addr(n), d.addr(n)
	parent, dropped := sets.Carried(n, context, sets.Parent(found>>32, traceparent.Bytes))
	if stream == 0 {
		d.tracker.Mismatch()
		return
	}
	if s := d.tracker.Innermost(n.G, Library, trace.SpanKindServer); s != nil { // its end was lost, or its connection
		s.Ending = spans.Unobserved
		d.tracker.End(s, n.Time)
	}
	s := &spans.Span{Library: Library, Kind: trace.SpanKindServer, Start: n.Time, G: n.G, Object: stream, Context: context}
	setMethod(s, method.Bytes)
	if d.is(key, "metadata.mdIncomingKey") {
		s.Parent = parent
		d.tracker.Searched(found>>32, uint64(uint32(found)))
		if dropped {
			d.tracker.NoState()
		}
		if len(agent.Bytes) > 0 {
			s.Set(semconv.UserAgentOriginal(string(agent.Bytes)))
		}
	}
	if d.is(transport, "*transport.http2Server") {
		s.Set(peer.attributes()...)
		s.Set(local.server()...)
	}
	d.tracker.Begin(s)
	d.tracker.Pass(s, passed)
}

func (d *decoder) serverEnd(n *probe.Note) {
	stream := n.Word()
	st := readStatus(n)
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindServer)
	if s == nil {
		d.tracker.Stray()
		return
	}
	if s.Object != stream {
		d.tracker.Mismatch()
		return
	}
	if st.refused() {
		original := s.Name
		s.Name = semconv.RPCSystemNameGRPC.Value.AsString()
		for i, a := range s.Attributes {
			if a.Key == semconv.RPCMethodKey {
				s.Attributes[i] = semconv.RPCMethod("_OTHER")
			}
		}
		s.Set(semconv.RPCMethodOriginal(original))
	}
	st.set(s)
	d.tracker.End(s, n.Time)
}

func (d *decoder) clientBegin(n *probe.Note) {
	context, passed := sets.Context(n), sets.Contexts(n)
	method, target := n.Text(), n.Text()
	delete(d.newest, n.G)
	s := &spans.Span{Library: Library, Kind: trace.SpanKindClient, Start: n.Time, G: n.G, Context: context}
	setMethod(s, method.Bytes)
	setServer(s, string(target.Bytes))
	d.tracker.Begin(s, passed...)
	if strings.HasPrefix(s.Name, telemetry) { // what exports spans is no part of what the program does
		s.Context = s.Context.WithTraceFlags(0)
	}
}

// telemetry begins the names of the methods by which programs export their telemetry.
const telemetry = "opentelemetry.proto.collector."

// clientStream gives the span its object. From now on a goroutine can begin other RPCs before this one ends, and any goroutine can
// end it.
func (d *decoder) clientStream(n *probe.Note) {
	call := n.Word()
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindClient)
	switch {
	case s == nil:
		d.tracker.Stray()
	case call == 0:
		d.tracker.Mismatch()
	default:
		d.tracker.Detach(s, call)
		d.newest[n.G] = call
	}
}

// clientFailed ends the RPC that the goroutine has begun last.
func (d *decoder) clientFailed(n *probe.Note) {
	st := d.readError(n)
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindClient)
	if s == nil {
		s = d.tracker.Find(Library, d.newest[n.G])
	}
	if s == nil { // it has ended
		return
	}
	d.endClient(s, st, n.Time)
}

func (d *decoder) endClient(s *spans.Span, st result, at int64) {
	if d.newest[s.G] == s.Object {
		delete(d.newest, s.G)
	}
	st.set(s)
	d.tracker.End(s, at)
}

func (d *decoder) clientEnd(n *probe.Note) {
	call, transport := n.Word(), n.Word()
	st := d.readError(n)
	peer := d.addr(n)
	s := d.tracker.Find(Library, call)
	if s == nil { // before v1.46.2, a stream can fail before it has its object
		s = d.tracker.Innermost(n.G, Library, trace.SpanKindClient)
	}
	if s == nil {
		d.tracker.Stray()
		return
	}
	if d.is(transport, "*transport.http2Client") {
		s.Set(peer.attributes()...)
	}
	d.endClient(s, st, n.Time)
}

// addr reads a network address.
func (d *decoder) addr(n *probe.Note) address {
	typ, port := n.Word(), n.Word()
	text := n.Text()
	switch {
	case d.is(typ, "*net.TCPAddr"):
		ip, ok := netip.AddrFromSlice(text.Bytes)
		if !ok || port >= 1<<16 {
			return address{}
		}
		return address{transport: semconv.NetworkTransportTCP, name: ip.Unmap().String(), port: int(port)}
	case d.is(typ, "*net.UnixAddr"):
		a := address{transport: semconv.NetworkTransportUnix}
		if name := string(text.Bytes); name != "@" { // the client of a socket has no name
			a.name = name
		}
		return a
	}
	return address{}
}

// An address is one of a connection; the zero value is unknown.
type address struct {
	transport attribute.KeyValue
	name      string
	port      int
}

// attributes returns the address as that of the peer.
func (a address) attributes() []attribute.KeyValue {
	if !a.transport.Valid() {
		return nil
	}
	list := []attribute.KeyValue{a.transport}
	if a.name != "" {
		list = append(list, semconv.NetworkPeerAddress(a.name))
	}
	if a.port > 0 {
		list = append(list, semconv.NetworkPeerPort(a.port))
	}
	return list
}

// server returns the address as that of the server.
func (a address) server() []attribute.KeyValue {
	var list []attribute.KeyValue
	if a.name != "" {
		list = append(list, semconv.ServerAddress(a.name))
	}
	if a.port > 0 {
		list = append(list, semconv.ServerPort(a.port))
	}
	return list
}

// A result is the status of an RPC.
type result struct {
	known   bool
	code    uint32
	message string
	failure string // the type of an error without a status
}

// readStatus reads a status.
func readStatus(n *probe.Note) result {
	code := n.Word()
	message := n.Text()
	return result{known: true, code: uint32(code), message: string(message.Bytes)}
}

// readError reads an error.
func (d *decoder) readError(n *probe.Note) result {
	typ, text := n.Word(), n.Word()
	r := readStatus(n)
	if typ == 0 {
		return result{known: true}
	}
	name, err := d.typeName(typ)
	switch {
	case err != nil:
		return result{failure: semconv.ErrorTypeOther.Value.AsString()}
	case name == "*status.Error" || name == "*status.statusError":
		return r
	case name == "*errors.errorString" && shortText(text) == "EOF": // a stream ends without an error
		return result{known: true}
	}
	return result{failure: name}
}

// shortText returns the text in a word.
func shortText(word uint64) string {
	b := binary.LittleEndian.AppendUint64(nil, word)
	return string(bytes.TrimRight(b, "\x00"))
}

// refused reports whether the server has no handler for the method.
func (r result) refused() bool {
	return r.known && (strings.HasPrefix(r.message, "unknown service ") || strings.HasPrefix(r.message, "unknown method ") ||
		strings.HasPrefix(r.message, "malformed method name"))
}

// names are the names of the codes.
var names = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
	"DATA_LOSS", "UNAUTHENTICATED"}

// serverErrors are the codes that are errors of the server.
var serverErrors = map[string]bool{"UNKNOWN": true, "DEADLINE_EXCEEDED": true, "UNIMPLEMENTED": true, "INTERNAL": true, "UNAVAILABLE": true, "DATA_LOSS": true}

// set sets the status of a span.
func (r result) set(s *spans.Span) {
	if !r.known {
		s.Set(semconv.ErrorTypeKey.String(r.failure))
		s.Fail("")
		return
	}
	name := strconv.Itoa(int(r.code))
	if int(r.code) < len(names) {
		name = names[r.code]
	}
	s.Set(semconv.RPCResponseStatusCode(name))
	if r.code != 0 && s.Kind == trace.SpanKindClient || serverErrors[name] {
		s.Set(semconv.ErrorTypeKey.String(name))
		s.Fail(r.message)
	}
}

// setMethod sets the name and the attributes of a method such as "/package.Service/Method".
func setMethod(s *spans.Span, method []byte) {
	s.Name = strings.TrimPrefix(string(method), "/")
	s.Set(semconv.RPCSystemNameGRPC)
	if s.Name != "" { // else it is secret
		s.Set(semconv.RPCMethod(s.Name))
	}
}

// setServer sets the attributes of the server in the target of a client: "host:port", or a URI with the scheme of a resolver such as
// "dns:///host:port".
func setServer(s *spans.Span, target string) {
	endpoint := target
	if scheme, rest, ok := strings.Cut(target, "://"); ok {
		if _, after, ok := strings.Cut(rest, "/"); ok && scheme != "unix" {
			endpoint = after
		} else {
			endpoint = rest
		}
	} else {
		for _, scheme := range []string{"unix:", "unix-abstract:", "dns:", "passthrough:", "ipv4:", "ipv6:"} {
			endpoint = strings.TrimPrefix(endpoint, scheme)
		}
	}
	if endpoint == "" {
		return
	}
	if host, port, err := net.SplitHostPort(endpoint); err == nil {
		if p, err := strconv.Atoi(port); err == nil && p > 0 && p < 1<<16 {
			s.Set(semconv.ServerAddress(host), semconv.ServerPort(p))
			return
		}
	}
	s.Set(semconv.ServerAddress(endpoint))
}
