package otlp

import (
	"net/http"
	"time"

	"google.golang.org/grpc"
)

// A Connection is what a client of an endpoint requires for a signal that this package does not export itself.
type Connection struct {
	GRPC    bool
	Target  string            // with GRPC; a target as gRPC defines it
	Dial    []grpc.DialOption // with GRPC: TLS, compression, and when to connect again
	URL     string            // with HTTP
	Client  *http.Client      // with HTTP; its errors of the connection are temporary
	Gzip    bool              // with HTTP: compress requests
	Headers map[string]string // of requests; may be secret
	Timeout time.Duration     // of an export with its retries; the maximum is no limit
	Retry   Retry

	name string
}

// Connection returns how to reach the endpoint of a signal. ok is false if the signal is not exported. The error is about files with
// certificates and keys.
func (c *Config) Connection(s Signal) (conn *Connection, ok bool, err error) {
	to := c.others[s].endpoint
	if to == nil {
		return nil, false, nil
	}
	secure, err := to.tls()
	if err != nil {
		return nil, false, err
	}
	conn = &Connection{
		GRPC: to.protocol == protocolGRPC, Target: to.target, URL: to.url, Gzip: to.gzip, Headers: to.headers, Timeout: to.timeout, Retry: c.Retry,
		name: to.String(),
	}
	if conn.GRPC {
		conn.Dial = []grpc.DialOption{grpc.WithTransportCredentials(transportCredentials(secure)), to.compressor(), c.Retry.connect()}
	} else {
		conn.Client = &http.Client{Transport: newTransport(secure)}
	}
	return conn, true, nil
}

// String returns the name of the endpoint in messages.
func (c *Connection) String() string { return c.name }
