package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
)

// pusher is a sink that sends events to a server, a batch at a time. A goroutine sends, so that Write does not wait for the
// server as long as there is room for a batch.
type pusher struct {
	url     string
	batch   []string
	batches chan []string
	done    chan struct{} // closed when err is known
	err     error
	sent    int
}

func newPusher(url string) *pusher {
	p := &pusher{url: url, batches: make(chan []string, 1), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for batch := range p.batches {
			if p.err = p.post(batch); p.err != nil {
				return
			}
			p.sent += len(batch)
		}
	}()
	return p
}

func (p *pusher) post(batch []string) error {
	body, err := json.Marshal(batch)
	if err != nil {
		return err
	}
	answer, err := http.Post(p.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

func (p *pusher) Write(e *event.Event) error {
	if p.batch = append(p.batch, e.Kind.String()); len(p.batch) < 100 {
		return nil
	}
	return p.flush()
}

func (p *pusher) flush() error {
	select {
	case p.batches <- p.batch:
		p.batch = nil
		return nil
	case <-p.done:
		return p.err
	}
}

func (p *pusher) Close() error {
	err := p.flush()
	close(p.batches)
	<-p.done
	return errors.Join(err, p.err)
}

func (p *pusher) Notes() []string { return []string{fmt.Sprintf("sent %d", p.sent)} }

// TestPush adds a format to the table that sends events instead of writing a file. It is offered as the others are, gets all
// events, and its errors are reported.
func TestPush(t *testing.T) {
	var got []string
	refuse := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var batch []string
		if err := json.NewDecoder(r.Body).Decode(&batch); err != nil || refuse {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		got = append(got, batch...)
	}))
	defer server.Close()
	table := append(export.Formats(), export.Format{Name: "push", Doc: "sends events to a server", Commands: export.Record,
		New: func(io.Writer, export.Options) (export.Sink, error) { return newPusher(server.URL), nil }})
	if help := table.For(export.Record).Help(); !strings.Contains(help, "\n  push      sends events to a server\n") {
		t.Errorf("help: %s", help)
	}
	format, err := table.For(export.Record).Find("push")
	if err != nil {
		t.Fatal(err)
	}
	push := func() (export.Sink, Written, error) {
		sink, err := format.New(nil, export.Options{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := Write(func(yield func(*event.Event) bool) {
			over := false
			program(1, func(e *event.Event) { over = over || !yield(e) })
		}, sink, event.KindsDefault)
		return sink, done, err
	}
	var want []string
	program(1, func(e *event.Event) { want = append(want, e.Kind.String()) })
	sink, done, err := push()
	if err != nil || !slices.Equal(got, want) || done.Events != uint64(len(want)) {
		t.Errorf("%d of %d events arrived, %+v, %v", len(got), len(want), done, err)
	}
	if n, ok := sink.(export.Noter); !ok || n.Notes()[0] != fmt.Sprintf("sent %d", len(want)) {
		t.Errorf("notes of %T", sink)
	}
	refuse = true
	if _, done, err := push(); err == nil || !strings.Contains(err.Error(), "503") || done.Events == uint64(len(want)) {
		t.Errorf("the server refuses: %+v, %v", done, err)
	}
}
