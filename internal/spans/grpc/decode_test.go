package grpc

import (
	"testing"

	"github.com/loupe-go/loupe/spans"
)

func TestSetServer(t *testing.T) {
	for target, want := range map[string][2]string{
		"127.0.0.1:80": {"127.0.0.1", "80"}, "[::1]:80": {"::1", "80"}, "example.com": {"example.com", ""}, "": {},
		"dns:///example.com:443": {"example.com", "443"}, "dns://8.8.8.8/example.com:443": {"example.com", "443"},
		"passthrough:///127.0.0.1:80": {"127.0.0.1", "80"}, "dns:example.com:443": {"example.com", "443"},
		"unix:/run/socket": {"/run/socket", ""}, "unix:///run/socket": {"/run/socket", ""}, "unix-abstract:name": {"name", ""},
		"example.com:port": {"example.com:port", ""}, "xds:///service": {"service", ""},
	} {
		s := new(spans.Span)
		setServer(s, target)
		var got [2]string
		for _, a := range s.Attributes {
			switch a.Key {
			case "server.address":
				got[0] = a.Value.String()
			case "server.port":
				got[1] = a.Value.String()
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
}
