package redis

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/spans"
)

// setServer sets the attributes of an address: "host:port", or the path of a socket. Clients with sentinels have no address.
func setServer(s *spans.Span, addr string) {
	if strings.HasPrefix(addr, "/") || strings.HasPrefix(addr, "@") {
		s.Set(semconv.ServerAddress(addr))
		return
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return
	}
	if host == "" {
		host = "localhost"
	}
	s.Set(semconv.ServerAddress(host))
	if p, err := strconv.Atoi(port); err == nil && p > 0 && p < 1<<16 {
		s.Set(semconv.ServerPort(p))
	}
}

// peer reads the remote address of a connection and returns its attributes.
func (d *decoder) peer(n *probe.Note) []attribute.KeyValue {
	conn, addr, port := n.Word(), n.Word(), n.Word()
	text := n.Text().Bytes
	switch {
	case d.is(conn, "*net.TCPConn") && d.is(addr, "*net.TCPAddr"):
		ip, ok := netip.AddrFromSlice(text)
		if !ok || port == 0 || port >= 1<<16 {
			return nil
		}
		return []attribute.KeyValue{semconv.NetworkPeerAddress(ip.Unmap().String()), semconv.NetworkPeerPort(int(port))}
	case d.is(conn, "*net.UnixConn") && d.is(addr, "*net.UnixAddr") && len(text) > 0:
		return []attribute.KeyValue{semconv.NetworkPeerAddress(string(text))}
	}
	return nil
}

// is reports whether the type at an address has a name.
func (d *decoder) is(addr uint64, name string) bool {
	if addr == 0 {
		return false
	}
	got, err := d.typeName(addr)
	return err == nil && got == name
}
