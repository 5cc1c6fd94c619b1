package realtarget

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
)

// newWebClient returns an HTTP client with connections of its own.
func newWebClient() *http.Client { return newTLSClient(nil) }

// newTLSClient does the same for a server that is verified by a configuration.
func newTLSClient(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, TLSClientConfig: config, ForceAttemptHTTP2: config != nil}}
}

// fetch returns the body of a URL.
func fetch(ctx context.Context, web *http.Client, url string) ([]byte, error) {
	return exchange(ctx, web, ask{method: http.MethodGet, url: url})
}

// An ask is an HTTP request and what its answer must have in it.
type ask struct {
	method, url string
	header      http.Header
	body        string
	want        string // part of the right answer
	status      int    // of the right answer; 0 if it is a success
}

// exchange sends a request and returns the answer's body. An answer that is no
// success is an error.
func exchange(ctx context.Context, web *http.Client, a ask) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, a.method, a.url, bytes.NewBufferString(a.body))
	if err != nil {
		return nil, err
	}
	for name, values := range a.header {
		req.Header[name] = values
	}
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", a.method, a.url, err)
	}
	if a.status != resp.StatusCode && (a.status != 0 || resp.StatusCode/100 != 2) || !bytes.Contains(body, []byte(a.want)) {
		return nil, fmt.Errorf("%s %s: %s: %.200q, which lacks %q or success", a.method, a.url, resp.Status, body, a.want)
	}
	return body, nil
}

// webUser is a client that speaks HTTP.
type webUser struct {
	web  *http.Client
	asks func(n int) ask
}

// webUsers returns the connect function of programs that speak HTTP.
func webUsers(asks func(n int) ask) func(context.Context) (client, error) {
	return func(context.Context) (client, error) { return &webUser{newWebClient(), asks}, nil }
}

func (u *webUser) request(ctx context.Context, n int) error {
	_, err := exchange(ctx, u.web, u.asks(n))
	return err
}

func (u *webUser) close() { u.web.CloseIdleConnections() }

// pick returns the n-th of a cycle of asks.
func pick(n int, asks ...ask) ask { return asks[n%len(asks)] }
