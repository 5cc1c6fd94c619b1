package loupe_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// carriedBy sends a request for path with some header lines, as they are, and returns the lines of its answer.
func (w *web) carriedBy(path string, header ...string) []string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.plain)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", path, w.plain, strings.Join(append(header, ""), "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
}

const (
	inParent  = "traceparent: " + incoming
	someState = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
	someBag   = "user=42;secret=no,region=eu%20west"
)

// TestInlineCarried sends a tracestate and a baggage to a program. The requests that it sends meanwhile carry them on.
func TestInlineCarried(t *testing.T) {
	long := "a=" + strings.Repeat("x", 254)
	for _, spec := range testtarget.Ends(t, webSpecs(t)) {
		t.Run(spec.String(), func(t *testing.T) {
			w := propagating(t, spec, loupe.Propagation{Baggage: true})
			for _, c := range []struct {
				as             string
				n              int
				state, baggage string
				want           string
			}{
				{"plain", 20, someState, someBag, "1 " + someState + "|1 " + someBag},
				{"post", 5, someState, "", "1 " + someState + "|0 "},
				{"new", 5, "", someBag, "0 |1 " + someBag},
				{"http2", 20, someState, someBag, "1 " + someState + "|1 " + someBag},
				{"http2post", 5, long, strings.Repeat("b", 496), "1 " + long + "|1 " + strings.Repeat("b", 496)},
				{"plain", 5, long, strings.Repeat("b", 496), "1 " + long + "|1 " + strings.Repeat("b", 496)},
				{"ownstate", 5, someState, someBag, "1 own=1|1 own=2"},
				{"http2ownstate", 5, someState, someBag, "1 own=1|1 own=2"},
				{"plain", 5, "", "", "0 |0 "},
				{"http2", 5, strings.Repeat("s", 100) + "=" + strings.Repeat("t", 26), strings.Repeat("b", 127),
					"1 " + strings.Repeat("s", 100) + "=" + strings.Repeat("t", 26) + "|1 " + strings.Repeat("b", 127)},
			} {
				header := []string{inParent}
				if c.state != "" {
					header = append(header, "tracestate: "+c.state)
				}
				if c.baggage != "" {
					header = append(header, "baggage: "+c.baggage)
				}
				got := w.carriedBy(fmt.Sprintf("/send?n=%d&as=%s&to=carried", c.n, c.as), header...)
				if !slices.Equal(got, slices.Repeat([]string{c.want}, c.n)) {
					t.Errorf("%s: servers have received %q, want %q", c.as, got, c.want)
				}
				own := strings.HasSuffix(c.as, "ownstate")
				for _, s := range w.take(1 + 2*c.n) {
					if got := s.Context.TraceState().String(); got != c.state && (!own || got != "own=1") {
						t.Errorf("%s: a span has tracestate %q, want %q", c.as, got, c.state)
					}
				}
			}
			if counts, err := w.session.SpanCounts(); err != nil || counts.NoState+counts.NoHeader+counts.Mismatched != 0 {
				t.Errorf("%+v, %v", counts, err)
			}
		})
	}
}

// TestInlineCarriedHostile sends values that are not carried on.
func TestInlineCarriedHostile(t *testing.T) {
	w := propagating(t, lastWeb(t)[0], loupe.Propagation{Baggage: true})
	for _, c := range []struct {
		name    string
		header  []string
		missing uint64
	}{
		{"too long", []string{inParent, "tracestate: a=" + strings.Repeat("x", 255), "baggage: " + strings.Repeat("b", 497)}, 1},
		{"binary", []string{inParent, "tracestate: a=\x80\xff", "baggage: \xc3\xa4"}, 1},
		{"tab", []string{inParent, "tracestate: a=b\tc", "baggage: b\tc"}, 1},
		{"no value", []string{inParent, "tracestate: a"}, 1},
		{"empty", []string{inParent, "tracestate:", "baggage:"}, 1},
		{"no key", []string{inParent, "tracestate: =b"}, 1},
		{"upper case", []string{inParent, "tracestate: A=b"}, 1},
		{"two values", []string{inParent, "tracestate: a=b=c"}, 1},
		{"many members", []string{inParent, "tracestate: " + strings.TrimSuffix(strings.Repeat("a=b,", 33), ",")}, 1},
		{"two lines", []string{inParent, "tracestate: a=b", "tracestate: c=d", "baggage: a=b", "baggage: c=d"}, 1},
		{"no parent", []string{"tracestate: a=b"}, 0},
		{"invalid parent", []string{"traceparent: 00-x", "tracestate: a=b"}, 0},
	} {
		for _, as := range []string{"plain", "http2"} {
			before, _ := w.session.SpanCounts()
			if got := w.carriedBy("/send?n=2&as="+as+"&to=carried", c.header...); !slices.Equal(got, []string{"0 |0 ", "0 |0 "}) {
				t.Errorf("%s, %s: servers have received %q", c.name, as, got)
			}
			w.take(5)
			if after, err := w.session.SpanCounts(); err != nil || after.NoState-before.NoState != c.missing || after.NoHeader != 0 {
				t.Errorf("%s, %s: %+v, %v", c.name, as, after, err)
			}
		}
	}
}

// TestInlineCarriedOff checks that baggage is only carried on if that is wanted.
func TestInlineCarriedOff(t *testing.T) {
	w := propagating(t, lastWeb(t)[0], loupe.Propagation{})
	for _, as := range []string{"plain", "http2"} {
		if got := w.carriedBy("/send?n=1&as="+as+"&to=carried", inParent, "tracestate: "+someState, "baggage: "+someBag); !slices.Equal(got, []string{"1 " + someState + "|0 "}) {
			t.Errorf("%s: the server has received %q", as, got)
		}
	}
	if counts, err := w.session.SpanCounts(); err != nil || counts.NoState != 0 {
		t.Errorf("%+v, %v", counts, err)
	}
}
