package nethttp

import (
	"bytes"
	"net"
	"net/url"
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
	serverHTTP2End
	clientBegin
	clientFailed
	clientEnd
	clientHTTP2Begin
	clientHTTP2End
	clientNoHeader
	serverUnwound
)

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	prefaces map[uint64]bool // goroutines that serve a connection of HTTP/2 in a handler, such as that of package h2c

	// The attributes of texts that many requests have.
	servers, secureServers, peers *sets.Cache[[]attribute.KeyValue]
	paths, agents                 *sets.Cache[attribute.KeyValue]
	routes                        *sets.Cache[attribute.KeyValue] // by pattern
	names                         *Routes
}

func newDecoder(t *join.Tracker, typeName func(uint64) (string, error)) *decoder {
	return &decoder{tracker: t, typeName: typeName, prefaces: map[uint64]bool{},
		servers:       sets.NewCache(func(host string) []attribute.KeyValue { return server(host, "http") }),
		secureServers: sets.NewCache(func(host string) []attribute.KeyValue { return server(host, "https") }),
		peers:         sets.NewCache(peer), paths: sets.NewCache(semconv.URLPath), agents: sets.NewCache(semconv.UserAgentOriginal),
		routes: sets.NewCache(func(pattern string) attribute.KeyValue { return semconv.HTTPRoute(PathOf(pattern)) }),
		names:  NewRoutes(),
	}
}

// maxPrefaces bounds the number of these. Some goroutines may have ended.
const maxPrefaces = 1 << 14

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case serverBegin:
		d.serverBegin(n)
	case serverEnd:
		d.serverEnd(n)
	case serverHTTP2End:
		d.serverHTTP2End(n)
	case clientBegin:
		d.clientBegin(n)
	case clientFailed:
		d.clientFailed(n)
	case clientEnd:
		d.clientEnd(n)
	case clientHTTP2Begin:
		d.clientHTTP2Begin(n)
	case clientHTTP2End:
		d.clientHTTP2End(n)
	case clientNoHeader:
		sets.Missing(d.tracker, n)
	case serverUnwound:
		d.serverUnwound(n)
	}
}

func (d *decoder) serverBegin(n *probe.Note) {
	context := sets.Context(n)
	req, passed, response, packed, tls := n.Word(), n.Word(), n.Word(), n.Word(), n.Word()
	traceparent := n.Text()
	method, path := target(n)
	host, remote, agent := n.Text(), n.Text(), n.Text()
	parent, dropped := sets.Carried(n, context, sets.Parent(packed>>32, traceparent.Bytes))
	major, minor := uint8(packed), uint8(packed>>8)
	if req == 0 || major == 0 || major > 3 {
		d.tracker.Mismatch()
		return
	}
	if major == 2 && string(method) == "PRI" { // the begin of a connection, which no request can have
		if len(d.prefaces) >= maxPrefaces {
			clear(d.prefaces)
		}
		d.prefaces[n.G] = true
		return
	}
	if s := d.tracker.Innermost(n.G, Library, trace.SpanKindServer); s != nil {
		if (s.Object == req && s.Result == response || major > 1 && d.tracker.Passed(passed) == s) && !d.tracker.LostSince(s) {
			return // the same request, passed on by another server
		}
		d.tracker.Supersede(s, n.Time)
	}
	if dropped {
		d.tracker.NoState()
	}
	d.tracker.Searched(packed>>32, packed>>16&0xffff)
	served := d.tracker.NewServed()
	s := &served.Span
	s.Library, s.Kind, s.Name = Library, trace.SpanKindServer, unknownMethod
	s.Start, s.G, s.Object, s.Result, s.Context, s.Parent = n.Time, n.G, req, response, context, parent
	if n.Marks&probe.MarkSecret == 0 {
		s.Name = setMethod(s, method)
		s.Set(d.paths.Of(path))
	}
	scheme, servers := httpScheme, d.servers
	if tls != 0 {
		scheme, servers = httpsScheme, d.secureServers
	}
	s.Set(scheme, semconv.NetworkProtocolVersion(protocol(major, minor)))
	s.Set(servers.Of(host.Bytes)...)
	s.Set(d.peers.Of(remote.Bytes)...)
	if len(agent.Bytes) > 0 {
		s.Set(d.agents.Of(agent.Bytes))
	}
	d.tracker.Serve(served, [2]uint64{passed, response}) // a router's own context can begin with the ResponseWriter
}

// separate says that the method and the path are separate texts, as in C.
const separate = 1<<64 - 1

// target returns the method and the path of a request that is served.
func target(n *probe.Note) (method, path []byte) {
	length := n.Word()
	line := n.Text().Bytes
	switch {
	case length == separate:
		return line, n.Text().Bytes
	case length >= uint64(len(line)): // in secret mode, or it could not be read
		return nil, nil
	}
	return line[:length], pathOf(line[:length], line[length+1:])
}

// pathOf returns the path of a request, as url.URL.Path is, given its method and what is requested. Package net/http has parsed that: it is
// valid unless the memory has changed.
func pathOf(method, uri []byte) []byte {
	if len(uri) > 0 && uri[0] == '/' {
		path, _, _ := bytes.Cut(uri, []byte("?"))
		if bytes.IndexByte(path, '%') < 0 {
			return path
		}
	} else if string(method) == "CONNECT" { // to an address
		return nil
	}
	u, err := url.ParseRequestURI(string(uri))
	if err != nil {
		return nil
	}
	return []byte(u.Path)
}

var httpScheme, httpsScheme = semconv.URLScheme("http"), semconv.URLScheme("https")

// peer returns the attributes of the address of a client.
func peer(remote string) []attribute.KeyValue {
	addr, port, err := net.SplitHostPort(remote)
	if err != nil {
		return nil
	}
	list := []attribute.KeyValue{semconv.NetworkPeerAddress(addr), semconv.ClientAddress(addr)}
	if p, err := strconv.Atoi(port); err == nil {
		list = append(list, semconv.NetworkPeerPort(p))
	}
	return list
}

func (d *decoder) serverEnd(n *probe.Note) {
	req, response, status, written, hijacked := n.Word(), n.Word(), n.Word(), n.Word(), n.Word()
	route := n.Text()
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindServer)
	if s == nil {
		if !d.prefaces[n.G] {
			d.tracker.Stray()
		}
		delete(d.prefaces, n.G)
		return
	}
	if s.Object != req || s.Result != response {
		if d.tracker.LostSince(s) { // the end of s and the begin of this request
			d.tracker.Stray()
		} else {
			d.tracker.Mismatch()
		}
		d.tracker.Supersede(s, n.Time)
		return
	}
	if hijacked == 0 {
		setResponse(s, status, written)
	}
	d.setPattern(s, route)
	d.tracker.End(s, n.Time)
}

func (d *decoder) serverHTTP2End(n *probe.Note) {
	status, written, route := n.Word(), n.Word(), n.Text()
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindServer)
	if s == nil {
		d.tracker.Stray()
		return
	}
	setResponse(s, status, written)
	d.setPattern(s, route)
	d.tracker.End(s, n.Time)
}

// serverUnwound takes the route of a request whose handler has panicked or has called runtime.Goexit; or the end of a connection, which has no
// request. The request ends with its goroutine; if the end of that is not observed, it ends now.
func (d *decoder) serverUnwound(n *probe.Note) {
	followed, req, route := n.Word() != 0, n.Word(), n.Text()
	if s := d.tracker.Innermost(n.G, Library, trace.SpanKindServer); s != nil && s.Object == req {
		d.setPattern(s, route)
	}
	if !followed {
		delete(d.prefaces, n.G)
		d.tracker.Unwind(n.G, n.Time)
	}
}

// setResponse sets the attributes of the response of a request that was served. A status of 0 means that the handler has set none.
func setResponse(s *spans.Span, status, written uint64) {
	if status == 0 {
		status = 200
	}
	if status > 999 {
		return
	}
	s.Set(semconv.HTTPResponseStatusCode(int(status)))
	if written < 1<<62 && written > 0 {
		s.Set(semconv.HTTPResponseBodySize(int(written)))
	}
	if status >= 500 {
		s.Set(semconv.ErrorTypeKey.String(strconv.Itoa(int(status))))
		s.Fail("")
	}
}

// sent is the Object of a request that is being sent by HTTP/2. The goroutine that began it can begin another before it ends.
const sent = 1

func (d *decoder) clientBegin(n *probe.Note) {
	if s := d.tracker.Innermost(n.G, Library, trace.SpanKindClient); s != nil {
		d.tracker.Leave(s, n.Time) // by HTTP/2, or its end was lost
	}
	d.send(n)
}

func (d *decoder) clientHTTP2Begin(n *probe.Note) {
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindClient)
	if s != nil && s.Object != sent { // there is a connection for it now
		s.Object = sent
		return
	}
	if s != nil {
		d.tracker.Leave(s, n.Time)
	}
	if s = d.send(n); s != nil {
		s.Object = sent
	}
}

// send begins the span of a request that is sent.
func (d *decoder) send(n *probe.Note) *spans.Span {
	context, silent := sets.Sent(n) // the one that its header has, if the probes have chosen it
	passed := sets.Contexts(n)
	telemetry := n.Word() != 0
	own := n.Text()
	if silent && len(own.Bytes) == 0 && !telemetry {
		d.tracker.NoHeader()
	}
	req := n.Word()
	method, scheme, host, path, query := n.Text(), n.Text(), n.Text(), n.Text(), n.Text()
	if req == 0 {
		d.tracker.Mismatch()
		return nil
	}
	s := &spans.Span{Library: Library, Kind: trace.SpanKindClient, Start: n.Time, G: n.G, Object: req, Context: context, Name: unknownMethod}
	if n.Marks&probe.MarkSecret == 0 {
		if len(method.Bytes) == 0 {
			method.Bytes = []byte("GET")
		}
		s.Name = setMethod(s, method.Bytes)
		u := url.URL{Scheme: string(scheme.Bytes), Host: string(host.Bytes), Path: string(path.Bytes), RawQuery: redact(string(query.Bytes))}
		s.Set(semconv.URLFull(u.String()))
		s.Set(server(u.Host, u.Scheme)...)
	}
	d.tracker.Begin(s, passed...)
	d.tracker.Carries(s, join.ParseTraceparent(own.Bytes))
	if telemetry { // what exports spans is no part of what the program does
		s.Context = s.Context.WithTraceFlags(0)
	}
	return s
}

// secret are parameters of a query whose values the semantic conventions redact.
var secret = []string{"AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature"}

func redact(query string) string {
	if query == "" {
		return ""
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, ok := strings.Cut(part, "=")
		for _, s := range secret {
			if ok && name == s {
				parts[i] = name + "=REDACTED"
			}
		}
	}
	return strings.Join(parts, "&")
}

func (d *decoder) clientFailed(n *probe.Note) {
	failure := n.Word()
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindClient)
	if s == nil {
		d.tracker.Stray()
		return
	}
	d.fail(s, failure)
	d.tracker.End(s, n.Time)
}

func (d *decoder) clientEnd(n *probe.Note) {
	failure, status, proto := n.Word(), n.Word(), n.Word()
	s := d.tracker.Innermost(n.G, Library, trace.SpanKindClient)
	if s == nil {
		d.tracker.Stray()
		return
	}
	if major := uint8(proto); major > 0 && major <= 3 {
		s.Set(semconv.NetworkProtocolVersion(protocol(major, uint8(proto>>8))))
	}
	d.setResult(s, failure, status)
	d.tracker.End(s, n.Time)
}

// clientHTTP2End ends a request that was sent by HTTP/2. The goroutine is one that was created to send it.
func (d *decoder) clientHTTP2End(n *probe.Note) {
	failure, status := n.Word(), n.Word()
	s := d.tracker.Inherited(n.G, Library, trace.SpanKindClient)
	if s == nil {
		d.tracker.Stray()
		return
	}
	if status != 0 {
		s.Set(semconv.NetworkProtocolVersion("2"))
		failure = 0 // of what followed the response, such as a body that was not read to its end
	}
	d.setResult(s, failure, status)
	d.tracker.End(s, n.Time)
}

// setResult sets the attributes of the response, or of the error.
func (d *decoder) setResult(s *spans.Span, failure, status uint64) {
	switch {
	case failure != 0:
		d.fail(s, failure)
	case status > 0 && status <= 999:
		s.Set(semconv.HTTPResponseStatusCode(int(status)))
		if status >= 400 {
			s.Set(semconv.ErrorTypeKey.String(strconv.Itoa(int(status))))
			s.Fail("")
		}
	default:
		d.tracker.Mismatch()
	}
}

// fail sets the type of an error.
func (d *decoder) fail(s *spans.Span, typ uint64) {
	name, err := d.typeName(typ)
	if err != nil {
		name = semconv.ErrorTypeOther.Value.AsString()
	}
	s.Set(semconv.ErrorTypeKey.String(name))
	s.Fail("")
}

// methods are the attributes of the methods that the semantic conventions know.
var methods = map[string]attribute.KeyValue{}

func init() {
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "QUERY"} {
		methods[m] = semconv.HTTPRequestMethodKey.String(m)
	}
}

// setMethod sets the attribute of the method of a request, and returns the beginning of the name of its span.
func setMethod(s *spans.Span, method []byte) string {
	if known, ok := methods[string(method)]; ok {
		s.Set(known)
		return known.Value.AsString()
	}
	s.Set(semconv.HTTPRequestMethodOther, semconv.HTTPRequestMethodOriginal(join.Valid(string(method))))
	return unknownMethod
}

// unknownMethod is the beginning of a name if the method is not one of these, or is secret.
const unknownMethod = "HTTP"

// server returns the attributes of the server in a host with an optional port.
func server(host, scheme string) []attribute.KeyValue {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	if name == "" {
		return nil
	}
	p, err := strconv.Atoi(port)
	switch {
	case err == nil && p > 0 && p < 1<<16:
	case scheme == "https":
		p = 443
	default:
		p = 80
	}
	return []attribute.KeyValue{semconv.ServerAddress(name), semconv.ServerPort(p)}
}

// protocol returns the version of HTTP as attributes have it: "1.1", and "2" instead of "2.0".
func protocol(major, minor uint8) string {
	switch {
	case major > 1:
		return strconv.Itoa(int(major))
	case minor == 1:
		return "1.1"
	}
	return strconv.Itoa(int(major)) + "." + strconv.Itoa(int(minor))
}
