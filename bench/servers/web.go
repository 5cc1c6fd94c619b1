package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// An ask is an HTTP request.
type ask struct {
	method string // GET by default
	addr   int    // index of the address
	path   string // with the query
	name   string // instead of the path, if that differs each time
	header http.Header
	body   string
	status int // of the right answer to the load; 200 by default
}

// pick returns the n-th of a cycle of requests.
func pick(n int, asks ...ask) ask { return asks[n%len(asks)] }

// newWebClient returns a client with a connection of its own, which neither follows redirections nor decompresses.
func newWebClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send sends a request, and returns the response and its body.
func send(ctx context.Context, web *http.Client, at *site, a ask) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, a.method, "http://"+at.addrs[a.addr]+a.path, strings.NewReader(a.body))
	if err != nil {
		return nil, nil, err
	}
	if a.header != nil {
		req.Header = a.header.Clone()
	}
	resp, err := web.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// varying are the headers that differ each time, and uuid other parts of answers.
var (
	varying = []string{"Date", "Docker-Upload-Uuid"}
	uuid    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// webAnswers returns the function answers of a server that speaks HTTP.
func webAnswers(asks []ask) func(context.Context, *site) ([]answer, error) {
	return func(ctx context.Context, at *site) (answers []answer, err error) {
		web := newWebClient()
		defer web.CloseIdleConnections()
		for _, a := range asks {
			resp, body, err := send(ctx, web, at, a)
			if err != nil {
				return nil, err
			}
			for _, name := range varying {
				resp.Header.Del(name)
			}
			// Where package protojson puts spaces depends on the executable, by intent.
			var compact bytes.Buffer
			if len(body) > 0 && json.Compact(&compact, body) == nil {
				body = compact.Bytes()
				resp.Header.Del("Content-Length")
				resp.ContentLength = -1
			}
			var text strings.Builder
			fmt.Fprintln(&text, resp.Proto, resp.Status, resp.ContentLength, resp.TransferEncoding)
			if err := resp.Header.Write(&text); err != nil { // sorted
				return nil, err
			}
			text.Write(body)
			name := a.path
			if a.name != "" {
				name = a.name
			}
			answers = append(answers, answer{fmt.Sprint(resp.Request.Method, " ", name, " ", a.body), uuid.ReplaceAllString(text.String(), "0")})
		}
		return answers, nil
	}
}

// webReady returns the function ready of a server that speaks HTTP: it answers a path, without a text that is there before it is ready.
func webReady(path, before string) func(context.Context, *site) error {
	return func(ctx context.Context, at *site) error {
		web := newWebClient()
		defer web.CloseIdleConnections()
		resp, body, err := send(ctx, web, at, ask{path: path})
		if err == nil && (resp.StatusCode != http.StatusOK || before != "" && strings.Contains(string(body), before)) {
			err = fmt.Errorf("%s: %s %s", path, resp.Status, body)
		}
		return err
	}
}

// uploadAt begins an upload to a registry, and returns the path of its next request.
func uploadAt(ctx context.Context, at *site, path string) (string, error) {
	web := newWebClient()
	defer web.CloseIdleConnections()
	resp, body, err := send(ctx, web, at, ask{method: http.MethodPost, path: path})
	if err != nil {
		return "", err
	}
	location, found := strings.CutPrefix(resp.Header.Get("Location"), "http://"+at.addrs[0])
	if !found {
		return "", fmt.Errorf("POST %s: %s %s: no location", path, resp.Status, body)
	}
	return location, nil
}

// webUser is a client that speaks HTTP.
type webUser struct {
	web *http.Client
	at  *site
	ask func(n int) ask
}

// connectWeb returns the function connect of a server that speaks HTTP.
func connectWeb(asks func(n int) ask) func(context.Context, *site) (user, error) {
	return func(_ context.Context, at *site) (user, error) { return &webUser{newWebClient(), at, asks}, nil }
}

func (u *webUser) request(ctx context.Context, n int) error {
	a := u.ask(n)
	if a.status == 0 {
		a.status = http.StatusOK
	}
	resp, body, err := send(ctx, u.web, u.at, a)
	if err == nil && resp.StatusCode != a.status {
		err = fmt.Errorf("%s: %s %.200q", a.path, resp.Status, body)
	}
	return err
}

func (u *webUser) close() { u.web.CloseIdleConnections() }
