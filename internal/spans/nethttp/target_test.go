package nethttp

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// TestPathOf compares the path with that of the request that package net/http reads.
func TestPathOf(t *testing.T) {
	for _, line := range []string{
		"GET /", "GET /hello", "GET /hello?a=b", "GET /?", "GET /a%20b%2Fc?q=%20", "GET //double//slash", "GET /a#b?c", "OPTIONS *", "CONNECT example.com:443",
		"CONNECT /path?x", "GET http://example.com/path%41?q", "GET http://example.com", "GET https://user@example.com:1/x?y=z", "POST /ü", "GET /a+b", "BREW /;x?;",
	} {
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: example.com\r\n\r\n")))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := string(pathOf([]byte(req.Method), []byte(req.RequestURI))); got != req.URL.Path {
			t.Errorf("%s: path %q, want %q", line, got, req.URL.Path)
		}
	}
	for _, uri := range []string{"", "%", "/%2", "/%zz?x", ":", "http://%", "\x00"} { // which package net/http refuses
		if got := pathOf([]byte("GET"), []byte(uri)); len(got) > 0 {
			t.Errorf("%q: path %q", uri, got)
		}
	}
}
