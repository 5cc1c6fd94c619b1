package realtarget

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// planNats runs a NATS server with JetStream. The clients send messages to
// themselves.
func planNats(at *site) (*plan, error) {
	host, port, err := net.SplitHostPort(at.addrs[0])
	if err != nil {
		return nil, err
	}
	_, pprofPort, err := net.SplitHostPort(at.addrs[1])
	if err != nil {
		return nil, err
	}
	_, monitorPort, err := net.SplitHostPort(at.addrs[2])
	if err != nil {
		return nil, err
	}
	return &plan{
		args: []string{
			"--addr=" + host, "--port=" + port, "--profile=" + pprofPort, "--http_port=" + monitorPort,
			"--jetstream", "--store_dir=" + filepath.Join(at.dir, "data"),
		},
		pprof:   "http://" + at.addrs[1] + "/debug/pprof",
		monitor: "http://" + at.addrs[2],
		connect: func(ctx context.Context) (client, error) {
			return dialNats(ctx, at.addrs[0])
		},
		guests: 4, loaders: 3,
	}, nil
}

// A natsUser is a client that speaks NATS's line protocol.
type natsUser struct {
	conn    net.Conn
	lines   *bufio.Reader
	subject string
}

// dialNats connects and subscribes to a subject that nobody else knows.
func dialNats(ctx context.Context, addr string) (client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	u := &natsUser{conn: conn, lines: bufio.NewReader(conn), subject: strings.ReplaceAll(conn.LocalAddr().String(), ".", "-")}
	if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false}\r\nSUB %s 1\r\n", u.subject); err != nil {
		conn.Close()
		return nil, err
	}
	return u, nil
}

// natsBatch is how many messages one request sends.
const natsBatch = 50

func (u *natsUser) request(ctx context.Context, n int) error {
	if err := setDeadline(ctx, u.conn); err != nil {
		return err
	}
	var batch strings.Builder
	for range natsBatch {
		payload := fmt.Sprintf("message %d", n)
		fmt.Fprintf(&batch, "PUB %s %d\r\n%s\r\n", u.subject, len(payload), payload)
	}
	batch.WriteString("PING\r\n")
	if _, err := u.conn.Write([]byte(batch.String())); err != nil {
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
			payload, err := u.lines.ReadString('\n')
			if err != nil {
				return err
			}
			if want := fmt.Sprintf("message %d\r\n", n); payload != want {
				return fmt.Errorf("received %q, want %q", payload, want)
			}
			received++
		case strings.HasPrefix(line, "-ERR"):
			return fmt.Errorf("the server answers %q", line)
		}
	}
	return nil
}

func (u *natsUser) close() { u.conn.Close() }

// setDeadline makes what is done with a connection end by the context's deadline.
func setDeadline(ctx context.Context, conn net.Conn) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Time{}
	}
	return conn.SetDeadline(deadline)
}
