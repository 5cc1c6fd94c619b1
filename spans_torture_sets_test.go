package loupe_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestTortureSets attaches engine inline with the sets for libraries, with propagation and without, and detaches it, again and again, while
// the program serves and sends requests. Each answer is right, and a request has one valid header or none.
func TestTortureSets(t *testing.T) {
	web := testtarget.Spec{Program: "web"}
	specs := append([]testtarget.Spec{web}, testtarget.Rare(t, []testtarget.Spec{{Program: "web", Go: "1.19.13", Stripped: true}, {Program: "web", Go: "1.23.12", PIE: true},
		{Program: "exchange", Flags: "-modfile=grpc-1.57.mod", Go: "1.19.13"}}...)...)
	specs = append(specs, testtarget.Spec{Program: "exchange", Flags: "-modfile=grpc-1.85.mod"})
	specs = append(specs, testtarget.Rare(t, []testtarget.Spec{{Program: "envoy", Flags: "-modfile=franz-1.22.3.mod"}, {Program: "courier", Flags: "-modfile=kafka-0.4.41.mod", Go: "1.19.13"}, {Program: "courier", Flags: "-modfile=kafka-0.4.51.mod"},
		{Program: "mailer", Flags: "-modfile=sarama-1.61.1.mod"}, {Program: "mailer", Flags: "-modfile=sarama-shopify-1.38.1.mod", Tags: "shopify", Go: "1.19.13"}}...)...)
	for _, spec := range specs {
		t.Run(spec.String(), func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, spec))
			load := webLoad
			switch spec.Program {
			case "exchange":
				load = exchangeLoad
			case "envoy", "courier", "mailer":
				load = kafkaLoad
			}
			stop := load(t, p)
			before := holdingsOf(t, p.PID())
			var ended atomic.Int64
			tm := tormentor{pid: p.PID(), options: func(cycle int) loupe.Options {
				o := loupe.SpanOptions{Handle: func(*spans.Span) { ended.Add(1) }, Reuse: true, NoWork: cycle%3 == 0}
				if cycle%2 == 0 {
					o.Propagation = &loupe.Propagation{Baggage: true}
				}
				return loupe.Options{Engine: loupe.EngineInline, BufferBytes: 1 << 20, Spans: o}
			}}
			tm.torture(t, *torture/2)
			halfway := holdingsOf(t, p.PID())
			tm.torture(t, *torture/2)
			after := holdingsOf(t, p.PID())
			answers := stop()
			tm.report(t)
			t.Logf("%d spans, %d answers", ended.Load(), answers)
			if ended.Load() == 0 || answers == 0 {
				t.Error("nothing happened meanwhile")
			}
			before.files, after.files = nil, nil // connections come and go
			after.expectAs(t, before)
			after.expectNoMoreThan(t, halfway)
		})
	}
}

// answerOfSend is what a server answers that has received a request with a valid header, or without one.
var answerOfSend = regexp.MustCompile(`^(0 |1 00-[0-9a-f]{32}-[0-9a-f]{16}-01)$`)

// answerOfCarried is the same for a tracestate and a baggage.
var answerOfCarried = regexp.MustCompile(`^(0 |1 rojo=00f067aa0ba902b7,congo=t61rcWkgMzE)\|(0 |1 user=42;secret=no,region=eu%20west)$`)

// webLoad has clients send requests, which cause others, and checks the answers until it is stopped.
func webLoad(t *testing.T, p *testtarget.Process) (stop func() int64) {
	plain := strings.Fields(p.Command("address"))[1]
	var answers atomic.Int64
	var all sync.WaitGroup
	ended := make(chan struct{})
	for _, as := range []string{"plain", "shared", "post", "http2", "http2post", "redirected"} {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := 0; ; i++ {
				select {
				case <-ended:
					return
				default:
				}
				req, err := http.NewRequest("GET", fmt.Sprintf("http://%s/send?n=5&as=%s", plain, as), nil)
				if err != nil {
					t.Error(err)
					return
				}
				right := answerOfSend
				if i%2 == 1 && as != "redirected" {
					right = answerOfCarried
					req.URL.RawQuery += "&to=carried"
					req.Header.Set("traceparent", incoming)
					req.Header.Set("tracestate", someState)
					req.Header.Set("baggage", someBag)
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
				if err != nil || len(lines) != 5 {
					t.Errorf("%q, %v", body, err)
					return
				}
				for _, line := range lines {
					if !right.MatchString(line) {
						t.Errorf("%s: a server has received %q", as, line)
					}
				}
				answers.Add(1)
			}
		})
	}
	return func() int64 {
		close(ended)
		all.Wait()
		return answers.Load()
	}
}

// exchangeLoad has the program make RPCs until it is stopped.
func exchangeLoad(t *testing.T, p *testtarget.Process) (stop func() int64) {
	var rpcs int64
	header := regexp.MustCompile(`^(0:|1:00-[0-9a-f]{32}-[0-9a-f]{16}-01)$`)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			default:
			}
			p.Command("parallel 8 5")
			for _, code := range []string{p.Command("labeled 12"), p.Command("talk 3")} {
				if code != "OK" && code != "0 OK" {
					t.Errorf("an RPC ended with %s", code)
				}
			}
			for _, got := range strings.Fields(p.Command("received"))[1:] {
				if rpcs++; !header.MatchString(got) {
					t.Errorf("a handler has received %s", got)
				}
			}
		}
	}()
	return func() int64 {
		close(ended)
		<-done
		return rpcs
	}
}

// kafkaLoad has the program send messages until it is stopped. Another client receives them: each one has a valid header, or none.
func kafkaLoad(t *testing.T, p *testtarget.Process) (stop func() int64) {
	const times, goroutines, rounds = 20, 8, 2
	broker := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "postoffice", Flags: "-modfile=kfake.mod"}))
	p.Command("broker " + broker.Command("address"))
	p.Command("garbage")
	broker.Command("topic inside 1")
	message := regexp.MustCompile(`^key0\|value\|(traceparent=00-[0-9a-f]{32}-[0-9a-f]{16}-01)?$`)
	var messages, headers int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			default:
			}
			topic := fmt.Sprintf("torture%d", i)
			broker.Command("topic " + topic + " 1")
			for range times {
				for _, command := range []string{fmt.Sprintf("load %s %d %d", topic, goroutines, rounds), "inside inside"} { // this one in a request of HTTP
					if got := p.Command(command); got != "ok" {
						t.Errorf("%s: %s", command, got)
					}
				}
			}
			list := strings.Fields(broker.Command("records " + topic))
			if len(list) != times*goroutines*rounds {
				t.Errorf("the broker has %d messages, want %d", len(list), times*goroutines*rounds)
			}
			for _, m := range list {
				messages++
				if !message.MatchString(m) {
					t.Errorf("a client has received %q", m)
				}
				if strings.Contains(m, "traceparent") {
					headers++
				}
			}
		}
	}()
	return func() int64 {
		close(ended)
		<-done
		t.Logf("%d of %d messages have a header", headers, messages)
		return messages
	}
}
