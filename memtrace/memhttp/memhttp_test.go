package memhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/loupe-go/loupe/memtrace"
	"github.com/loupe-go/loupe/memtrace/memhttp"
)

var sink sync.Map

// TestHandler sends requests of different sizes to a server, some of them over their budget.
func TestHandler(t *testing.T) {
	if err := memtrace.Supported(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	reports := map[string]memhttp.Usage{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("kib"))
		for i := range n {
			sink.Store(i, make([]byte, 1024))
			if err := r.Context().Err(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		if r.URL.Query().Get("panic") != "" {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintln(w, "ok")
	})
	server := httptest.NewServer(memhttp.Handler(handler, memhttp.Options{
		Limits: []memtrace.Option{memtrace.WithLimitBytes(256 * memtrace.KiB)},
		Report: func(r *http.Request, used memhttp.Usage) {
			mu.Lock()
			defer mu.Unlock()
			reports[r.URL.RawQuery] = used
		},
		Failed: func(_ *http.Request, err error) { t.Error(err) },
	}))
	defer server.Close()
	for query, want := range map[string]int{"kib=1": 200, "kib=100": 200, "kib=1000": 503, "kib=50&panic=1": 0} {
		resp, err := http.Get(server.URL + "?" + query)
		if want == 0 {
			if err == nil {
				t.Errorf("%s: no error", query)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d: %s", query, resp.StatusCode, body)
		}
	}
	server.Close()
	for query, kib := range map[string]int64{"kib=1": 1, "kib=100": 100, "kib=1000": 256, "kib=50&panic=1": 50} {
		used, ok := reports[query]
		if !ok || used.Bytes < kib<<10 || used.Bytes > kib<<10+64<<10 {
			t.Errorf("%s: %+v, want some %d KiB", query, used, kib)
		}
		if over := used.Limit != nil; over != (query == "kib=1000") || over && !errors.Is(used.Limit, memtrace.ErrLimitBytes) {
			t.Errorf("%s: limit %v", query, used.Limit)
		}
	}
}
