package otlp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// connectTimeout is how long gRPC waits at least for a connection to be established.
const connectTimeout = 5 * time.Second

// A Retry is how exporters repeat a request that has failed. They do so within the timeout of an export.
type Retry struct {
	Enabled         bool
	InitialInterval time.Duration
	MaxInterval     time.Duration
	MaxElapsedTime  time.Duration
}

// defaultRetry has shorter intervals than the default of the SDK, 5s and 30s: an export has 10s by default.
var defaultRetry = Retry{Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: time.Minute}

// connect is the option of gRPC to connect again with the same intervals. By default gRPC waits up to 2 minutes.
func (r Retry) connect() grpc.DialOption {
	b := backoff.DefaultConfig
	b.BaseDelay, b.MaxDelay = r.InitialInterval, r.MaxInterval
	return grpc.WithConnectParams(grpc.ConnectParams{Backoff: b, MinConnectTimeout: connectTimeout})
}

// A transport sends HTTP requests. Errors of the connection are temporary. The exporters retry only temporary errors, and
// a connection that is refused, because the server restarts, would not be one of them.
type transport struct{ *http.Transport }

func newTransport(c *tls.Config) transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = c
	return transport{t}
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil && isConnection(err) {
		err = temporary{err}
	}
	return resp, err
}

// isConnection reports whether an error is one of the connection.
func isConnection(err error) bool {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Op == "dial" || op.Op == "read" || op.Op == "write" // not an alert of TLS
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// temporary marks an error as temporary.
type temporary struct{ error }

func (temporary) Temporary() bool { return true }
func (t temporary) Unwrap() error { return t.error }
