package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	idleConnections = 10
	httpClients     = 3
	pollInterval    = 50 * time.Millisecond
)

// server is the shop's network side: a feed that sends a line now and then over plain TCP, and a status page over HTTP,
// both on the loopback interface.
type server struct {
	feed net.Listener
	page net.Listener
}

func listen() (*server, error) {
	feed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	page, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		feed.Close()
		return nil, err
	}
	return &server{feed: feed, page: page}, nil
}

// run starts the servers and their clients.
func (s *server) run(ctx context.Context, parts *sync.WaitGroup) {
	pages := &http.Server{Handler: http.HandlerFunc(statusPage), ReadHeaderTimeout: time.Minute}
	parts.Go(func() { servePages(pages, s.page) })
	parts.Go(func() { s.acceptFeeds(ctx, parts) })
	for range idleConnections {
		parts.Go(func() { followFeed(ctx, s.feed.Addr().String()) })
	}
	for range httpClients {
		parts.Go(func() { pollStatus(ctx, "http://"+s.page.Addr().String()) })
	}
	parts.Go(func() { s.closeAfter(ctx, pages) })
}

// servePages serves the status page until the server is closed.
func servePages(pages *http.Server, l net.Listener) { pages.Serve(l) }

// closeAfter closes both servers when the program is to end.
func (s *server) closeAfter(ctx context.Context, pages *http.Server) {
	<-ctx.Done()
	s.feed.Close()
	pages.Close()
}

// acceptFeeds serves every connection to the feed.
func (s *server) acceptFeeds(ctx context.Context, parts *sync.WaitGroup) {
	for {
		conn, err := s.feed.Accept()
		if err != nil {
			return // closed
		}
		parts.Go(func() { serveFeed(ctx, conn) })
	}
}

// serveFeed answers each line that a follower sends.
func serveFeed(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		fmt.Fprintln(conn, "nothing new")
	}
}

// followFeed opens a connection to the feed and waits for news that do not come.
func followFeed(ctx context.Context, addr string) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	io.Copy(io.Discard, conn)
}

// statusPage is the one page of the HTTP server.
func statusPage(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(2 * time.Millisecond)
	io.WriteString(w, "open\n")
}

// pollStatus asks for the status page over and over.
func pollStatus(ctx context.Context, url string) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		if err := getStatus(ctx, client, url); errors.Is(err, context.Canceled) {
			return
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return
		}
	}
}

func getStatus(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
