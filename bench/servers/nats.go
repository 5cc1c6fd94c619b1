package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func natsArguments(at *site) ([]string, error) {
	host, port, err := net.SplitHostPort(at.addrs[0])
	if err != nil {
		return nil, err
	}
	_, monitor, err := net.SplitHostPort(at.addrs[1])
	return []string{
		"--name=one", "--addr=" + host, "--port=" + port, "--http_port=" + monitor, "--jetstream", "--store_dir=" + filepath.Join(at.dir, "data"),
	}, err
}

// A natsUser is a client that speaks NATS's line protocol.
type natsUser struct {
	conn    net.Conn
	lines   *bufio.Reader
	subject string
}

// natsBatch is how many messages one request sends.
const natsBatch = 50

// dialNats connects, and subscribes to a subject that no other client knows.
func dialNats(ctx context.Context, at *site) (user, error) {
	u, err := newNatsUser(ctx, at)
	if err != nil {
		return nil, err
	}
	u.subject = strings.ReplaceAll(u.conn.LocalAddr().String(), ".", "-")
	_, err = fmt.Fprintf(u.conn, "CONNECT {\"verbose\":false}\r\nSUB %s 1\r\n", u.subject)
	return u, err
}

func newNatsUser(ctx context.Context, at *site) (*natsUser, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", at.addrs[0])
	if err != nil {
		return nil, err
	}
	return &natsUser{conn: conn, lines: bufio.NewReader(conn)}, nil
}

// request sends messages to itself.
func (u *natsUser) request(_ context.Context, n int) error {
	payload := fmt.Sprintf("message %d", n)
	message := fmt.Sprintf("PUB %s %d\r\n%s\r\n", u.subject, len(payload), payload)
	if _, err := u.conn.Write([]byte(strings.Repeat(message, natsBatch) + "PING\r\n")); err != nil {
		return err
	}
	for received, ponged := 0, false; received < natsBatch || !ponged; {
		line, err := u.lines.ReadString('\n')
		switch {
		case err != nil:
			return err
		case line == "PONG\r\n":
			ponged = true
		case line == "PING\r\n":
			if _, err := u.conn.Write([]byte("PONG\r\n")); err != nil {
				return err
			}
		case strings.HasPrefix(line, "MSG "):
			got, err := u.lines.ReadString('\n')
			if err != nil {
				return err
			}
			if got != payload+"\r\n" {
				return fmt.Errorf("received %q, want %q", got, payload)
			}
			received++
		case strings.HasPrefix(line, "-ERR"):
			return fmt.Errorf("the server answers %q", line)
		}
	}
	return nil
}

func (u *natsUser) close() { u.conn.Close() }

// natsDialogues are texts that a client sends on one connection. The server answers the last line of each with PONG, or ends the connection.
var natsDialogues = []string{
	"CONNECT {\"verbose\":true}\r\nPING\r\n",
	"CONNECT {\"verbose\":true}\r\nSUB a.* 1\r\nSUB a.> q 2\r\n" + pub("a.b", "hello") + pub("c", "no") + "UNSUB 1\r\n" + pub("a.b reply", "") + "PING\r\n",
	"CONNECT {\"headers\":true}\r\nSUB h 1\r\nHPUB h 20 22\r\nNATS/1.0\r\nK: val\r\n\r\nhi\r\nPING\r\n",
	"CONNECT {\"headers\":true,\"no_responders\":true}\r\nSUB r 1\r\n" + pub("nobody r", "") + "PING\r\n",
	"CONNECT {\"pedantic\":true}\r\n" + pub("a..b", "x") + "PING\r\n",
	"CONNECT {}\r\nSUB _R 1\r\n" + pub("$JS.API.STREAM.CREATE.S _R", `{"name":"S","subjects":["s.>"]}`) + "PING\r\n",
	"CONNECT {}\r\nSUB _R 1\r\n" + pub("s.x _R", "hi") + pub("s.x _R", "ho") + "PING\r\n",
	"CONNECT {}\r\nSUB _R 1\r\n" + pub("$JS.API.STREAM.MSG.GET.S _R", `{"seq":2}`) + pub("$JS.API.STREAM.INFO.NONE _R", "") + "PING\r\n",
	"NOTHING\r\n",
	"CONNECT {\r\nPING\r\n",
	"PUB a 99999999\r\n",
}

// pub returns the line that publishes a message, and the message.
func pub(to, payload string) string {
	return fmt.Sprintf("PUB %s %d\r\n%s\r\n", to, len(payload), payload)
}

// natsVarying are parts of answers that differ each time.
var natsVarying = regexp.MustCompile(`"(server_id|xkey|client_id|ts|created|time)":("[^"]*"|\d+)|(MSG _R \d+) \d+`)

// natsAnswers sends the dialogues, and asks the pages about the server.
func natsAnswers(ctx context.Context, at *site) ([]answer, error) {
	answers, err := webAnswers([]ask{{addr: 1, path: "/healthz"}, {addr: 1, path: "/"}, {addr: 1, path: "/nothing"}})(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, text := range natsDialogues {
		got, err := natsDialogue(ctx, at, text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		answers = append(answers, answer{text, natsVarying.ReplaceAllString(got, `"$1$3":0`)})
	}
	return answers, nil
}

// natsReady returns an error if the server does not accept clients.
func natsReady(ctx context.Context, at *site) error {
	_, err := natsDialogue(ctx, at, natsDialogues[0])
	return err
}

// natsDialogue sends a text on a new connection, and returns the lines that the server sends until it has answered PING and requests to JetStream.
func natsDialogue(ctx context.Context, at *site, text string) (string, error) {
	u, err := newNatsUser(ctx, at)
	if err != nil {
		return "", err
	}
	defer u.close()
	if err := u.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := u.conn.Write([]byte(text)); err != nil {
		return "", err
	}
	// JetStream answers after PONG.
	replies := strings.Count(text, " _R ") - strings.Count(text, "SUB _R ")
	var got strings.Builder
	for pongs := 0; pongs == 0 || replies > 0; {
		line, err := u.lines.ReadString('\n')
		got.WriteString(line)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "", fmt.Errorf("%w after %q", err, got.String())
		case err != nil:
			return strings.Join(sortedLines(got.String()), "\n"), nil // the server has ended the connection
		case line == "PONG\r\n":
			pongs++
		case strings.HasPrefix(line, "MSG _R "):
			payload, err := u.lines.ReadString('\n')
			if err != nil {
				return "", err
			}
			got.WriteString(payload)
			replies--
		}
	}
	// The order of PONG and the replies is not defined.
	return strings.Join(sortedLines(got.String()), "\n"), nil
}

// sortedLines returns the lines of a text, each once, in order.
func sortedLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
