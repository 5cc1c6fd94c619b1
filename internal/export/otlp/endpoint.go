package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// The protocols of OTLP.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// An endpoint is where one signal is sent by OTLP, and how.
type endpoint struct {
	protocol string
	url      string // with protocolHTTP
	target   string // with protocolHTTP the host and port, with protocolGRPC a target as gRPC defines it
	insecure bool   // without TLS

	headers map[string]string // may be secret
	timeout time.Duration     // of an export with its retries
	gzip    bool

	// Names of files in PEM format; empty if unset.
	authorities, clientKey, clientCertificate string
}

func (e *endpoint) String() string { return "OTLP " + e.protocol + " endpoint " + e.target }

// readEndpoint reads the OTEL_EXPORTER_OTLP_* variables of a signal.
func readEndpoint(v *variables, signal string) (*endpoint, error) {
	names := func(suffix string) []string {
		return []string{"OTEL_EXPORTER_OTLP_" + signal + "_" + suffix, "OTEL_EXPORTER_OTLP_" + suffix}
	}
	e := &endpoint{
		protocol: protocolHTTP,
		insecure: v.boolean(names("INSECURE")...),
		headers:  readHeaders(v, names("HEADERS")...),
		timeout:  v.timeout(10*time.Second, names("TIMEOUT")...),
		gzip:     v.choice([]string{"none", "gzip"}, names("COMPRESSION")...) == "gzip",
	}
	_, e.authorities = v.text(names("CERTIFICATE")...)
	_, e.clientKey = v.text(names("CLIENT_KEY")...)
	_, e.clientCertificate = v.text(names("CLIENT_CERTIFICATE")...)
	if name, value := v.text(names("PROTOCOL")...); name != "" {
		e.protocol = strings.ToLower(value)
		if e.protocol != protocolHTTP && e.protocol != protocolGRPC {
			return nil, fmt.Errorf("%s: unsupported protocol %q: must be %s or %s", name, value, protocolHTTP, protocolGRPC)
		}
	}
	name, value := v.text(names("ENDPOINT")...)
	var err error
	if e.protocol == protocolHTTP {
		err = e.setURL(value, name == names("ENDPOINT")[0], pathOf(signal))
	} else {
		err = e.setTarget(value)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// pathOf returns the path of a signal by HTTP.
func pathOf(signal string) string {
	if signal == string(Profiles) {
		return "v1development/profiles"
	}
	return "v1/" + strings.ToLower(signal)
}

// setURL sets the endpoint of OTLP by HTTP. An endpoint for all signals is extended by the path of the signal.
func (e *endpoint) setURL(value string, signalOnly bool, signalPath string) error {
	if value == "" {
		value = "http://localhost:4318"
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("invalid endpoint: must have the form http://HOST:PORT or https://HOST:PORT")
	}
	if !signalOnly {
		u.Path = path.Join("/", u.Path, signalPath)
	} else if u.Path == "" {
		u.Path = "/"
	}
	e.target, e.insecure = u.Host, u.Scheme == "http"
	e.url = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	return nil
}

// setTarget sets the endpoint of OTLP by gRPC: a URL, or a target as gRPC defines it. The scheme of a URL has
// precedence over the variable about TLS.
func (e *endpoint) setTarget(value string) error {
	if value == "" {
		value = "http://localhost:4317"
	}
	e.target = value
	scheme, _, _ := strings.Cut(value, ":")
	switch strings.ToLower(scheme) {
	case "http", "https":
		u, err := url.Parse(value)
		if err != nil || u.Host == "" {
			return errors.New("invalid endpoint: must have the form http://HOST:PORT, https://HOST:PORT or HOST:PORT")
		}
		e.target, e.insecure = u.Host, u.Scheme == "http"
	case "unix", "unix-abstract":
		e.insecure = true
	}
	return nil
}

// readHeaders reads the headers of requests. Invalid headers are ignored.
func readHeaders(v *variables, names ...string) map[string]string {
	name, value := v.text(names...)
	keys, values, bad := pairs(value)
	headers := map[string]string{}
	for i, key := range keys {
		if !httpguts.ValidHeaderFieldName(key) || !httpguts.ValidHeaderFieldValue(values[i]) {
			v.warn("%s is invalid: ignoring header %q", name, key)
			continue
		}
		headers[key] = values[i]
	}
	if bad > 0 {
		v.warn("%s is invalid: header %d must have the form KEY=VALUE, with percent-encoded characters; ignoring it", name, bad)
	}
	return headers
}

// tls returns the configuration of TLS, nil without TLS.
func (e *endpoint) tls() (*tls.Config, error) {
	if e.insecure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.authorities != "" {
		pem, err := os.ReadFile(e.authorities)
		if err != nil {
			return nil, fmt.Errorf("cannot read the certificates for %v: %w", e, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cannot read the certificates for %v: no certificate in %s", e, e.authorities)
		}
	}
	if e.clientKey != "" || e.clientCertificate != "" {
		pair, err := tls.LoadX509KeyPair(e.clientCertificate, e.clientKey)
		if err != nil {
			return nil, fmt.Errorf("cannot read the client certificate and key for %v: %w", e, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
