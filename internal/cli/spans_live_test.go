package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// spanLine is what the live tests look at in a line of loupe spans --json.
type spanLine struct {
	TraceID, SpanID, ParentSpanID, ParentRule, Name, Kind, Status string
	Start, End                                                    time.Time
	PID                                                           int
	Attributes                                                    map[string]any

	Spans, Lost, Open *int
}

func parseSpans(t *testing.T, out string) []spanLine {
	t.Helper()
	var lines []spanLine
	for line := range strings.Lines(out) {
		var l spanLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 || lines[len(lines)-1].Kind != "Summary" {
		t.Fatalf("no summary: %s", out)
	}
	return lines
}

// startWeb starts program web. visit sends a request to it and returns the status, 0 if there is no response.
func startWeb(t *testing.T) (pid string, visit func(path string) int) {
	t.Helper()
	target, pid := startTarget(t, "web")
	address := "http://" + strings.Fields(target.Command("address"))[1]
	client := &http.Client{Transport: &http.Transport{}, Timeout: testcmd.Patience}
	t.Cleanup(client.CloseIdleConnections)
	return pid, func(path string) int {
		resp, err := client.Get(address + path)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body) // the status is known
		return resp.StatusCode
	}
}

// visiting sends requests one after the other, until the function that it returns is called.
func visiting(visit func(string) int, paths ...string) (end func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
				visit(paths[i%len(paths)])
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// TestLiveSpans compares what the command prints with the requests.
func TestLiveSpans(t *testing.T) {
	pid, visit := startWeb(t)
	defer visiting(visit, "/hello", "/status/503", "/many?n=2", "/wait?for=lock")()
	testcmd.UntilSeen(t, 2*time.Second, func(d time.Duration) error {
		r := run(t, machine{}, "spans", pid, "--json", "--duration", d.String())
		if r.status != exitDone {
			t.Fatalf("%+v", r)
		}
		lines := parseSpans(t, r.out)
		sum := lines[len(lines)-1]
		if *sum.Spans != len(lines)-1 || *sum.Lost != 0 {
			t.Errorf("%d spans, %d lost: the summary is %s", len(lines)-1, *sum.Lost, r.out[strings.LastIndex(r.out[:len(r.out)-1], "\n")+1:])
		}
		seen := map[string]int{}
		served := map[string]string{}
		for _, l := range lines {
			if l.Kind == "server" {
				served[l.SpanID] = fmt.Sprint(l.Attributes["url.path"])
			}
		}
		for _, l := range lines[:len(lines)-1] {
			if fmt.Sprint(l.PID) != pid || l.TraceID == "" || !l.End.After(l.Start) {
				t.Errorf("%+v", l)
			}
			switch path := fmt.Sprint(l.Attributes["url.path"]); {
			case l.Kind == "server" && path == "/hello" && l.Status == "unset" && l.Attributes["http.response.status_code"] == 200.0:
				seen["hello"]++
			case l.Kind == "server" && path == "/status/503" && l.Status == "error":
				seen["status"]++
			case l.Kind == "client" && l.ParentRule == "goroutine" && served[l.ParentSpanID] == "/many":
				seen["many"]++
			case l.Kind == "server" && path == "/wait" && l.Attributes["loupe.go.lock.released_by.function"] == "main.(*web).release":
				seen["lock"]++
			}
		}
		if len(seen) != 4 {
			return fmt.Errorf("%v in %d lines", seen, len(lines))
		}
		return nil
	})
}

// TestLiveSpansText has a table, and a slow request with its spans.
func TestLiveSpansText(t *testing.T) {
	pid, visit := startWeb(t)
	defer visiting(visit, "/hello", "/fan?n=3", "/wait?for=sleep")()
	receiver := testcollector.Receive(t, nil)
	testcmd.UntilSeen(t, 2*time.Second, func(d time.Duration) error {
		r := run(t, machine{}, "spans", pid, "--duration", d.String(), "--slower-than", "1us", "--otlp", "http://"+receiver.HTTP)
		if r.status != exitDone {
			t.Fatalf("%+v", r)
		}
		for _, want := range []string{"server  GET /hello", "% sleep", " goroutines started: ", "█", "/hello 200"} {
			if !strings.Contains(r.out, want) {
				return fmt.Errorf("no %q in %+v", want, r)
			}
		}
		for _, s := range receiver.Spans() {
			if s.Resource["process.pid"] == pid && s.Resource["service.name"] != "" && s.Attributes["http.route"] == "/hello" {
				return nil
			}
		}
		return fmt.Errorf("%d spans exported", len(receiver.Spans()))
	})
}

// TestLiveSpansInterrupted ends an observation as Ctrl-C does.
func TestLiveSpansInterrupted(t *testing.T) {
	pid, visit := startWeb(t)
	defer visiting(visit, "/hello")()
	in, out := io.Pipe()
	var errOut lockedBuffer
	a := &app{Env: Env{Args: []string{"spans", pid, "--json", "-q"}, Stdin: strings.NewReader(""), Stdout: out, Stderr: &errOut, Getenv: os.Getenv}, system: machine{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	status := make(chan int)
	go func() {
		status <- a.run(ctx)
		out.Close()
	}()
	for lines := json.NewDecoder(in); ; {
		var l spanLine
		if err := lines.Decode(&l); err != nil {
			t.Fatalf("%v, stderr %q", err, errOut.String())
		}
		if l.Kind == "Summary" {
			break
		}
		stop()
	}
	go io.Copy(io.Discard, in)
	if s := <-status; s != exitDone {
		t.Errorf("status %d, stderr %q", s, errOut.String())
	}
}

// TestLiveSpansProgram observes a program from its start to its end.
func TestLiveSpansProgram(t *testing.T) {
	needLive(t)
	path := testtarget.Build(t, testtarget.Spec{Program: "web"})
	stdin, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer w.Close()
	var out, errOut lockedBuffer
	a := &app{Env: Env{Args: []string{"spans", "-q", "--json", "--", path}, Stdin: stdin, Stdout: &out, Stderr: &errOut, Getenv: os.Getenv}, system: machine{}}
	status := make(chan int, 1)
	go func() { status <- a.run(t.Context()) }()
	io.WriteString(w, "address\n") // the program reads it when it is ready
	answer := regexp.MustCompile(`address (\S+) \S+\n`)
	for answer.FindString(errOut.String()) == "" {
		select {
		case s := <-status:
			t.Fatalf("status %d, stderr %q", s, errOut.String())
		case <-time.After(time.Millisecond):
		}
	}
	resp, err := http.Get("http://" + answer.FindStringSubmatch(errOut.String())[1] + "/hello")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	w.Close() // it ends
	if s := <-status; s != exitDone {
		t.Errorf("status %d, stderr %q", s, errOut.String())
	}
	lines := parseSpans(t, out.String())
	if len(lines) != 2 || lines[0].Name != "GET /hello" || *lines[1].Spans != 1 {
		t.Errorf("%s", out.String())
	}
}
