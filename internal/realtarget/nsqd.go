package realtarget

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// nsqHeartbeat is how often nsqd asks whether a client is there: longer than any
// test lasts, so that clients need not listen while they rest.
const nsqHeartbeat = 10 * time.Minute

// planNsqd runs an nsqd. The clients send messages to themselves.
func planNsqd(at *site) (*plan, error) {
	return &plan{
		args: []string{
			"-data-path=" + at.dir, "-broadcast-address=127.0.0.1",
			"-max-heartbeat-interval=" + nsqHeartbeat.String(),
			"-tcp-address=" + at.addrs[0], "-http-address=" + at.addrs[1],
		},
		pprof:   "http://" + at.addrs[1] + "/debug/pprof",
		connect: func(ctx context.Context) (client, error) { return dialNsq(ctx, at.addrs[0]) },
		guests:  4, loaders: 3,
	}, nil
}

// An nsqUser is a client that speaks NSQ's framed protocol.
type nsqUser struct {
	conn  net.Conn
	topic string
}

// dialNsq connects and subscribes to a topic that nobody else knows.
func dialNsq(ctx context.Context, addr string) (client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		conn.Close()
		return nil, err
	}
	u := &nsqUser{conn: conn, topic: "topic" + port + "#ephemeral"}
	if err := u.subscribe(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return u, nil
}

func (u *nsqUser) subscribe(ctx context.Context) error {
	if err := setDeadline(ctx, u.conn); err != nil {
		return err
	}
	// A client that says nothing is cut off after two heartbeats.
	if err := u.send("  V2IDENTIFY\n", fmt.Sprintf(`{"heartbeat_interval":%d}`, nsqHeartbeat.Milliseconds())); err != nil {
		return err
	}
	if err := u.confirm("IDENTIFY"); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(u.conn, "SUB %s channel#ephemeral\n", u.topic); err != nil {
		return err
	}
	if err := u.confirm("SUB"); err != nil {
		return err
	}
	_, err := io.WriteString(u.conn, "RDY 1\n")
	return err
}

// confirm reads the frame that says that a command was done.
func (u *nsqUser) confirm(command string) error {
	kind, body, err := u.receive()
	if err != nil {
		return err
	}
	if kind != nsqResponse || string(body) != "OK" {
		return fmt.Errorf("%s is answered with a frame of kind %d: %q", command, kind, body)
	}
	return nil
}

// Kinds of the frames that nsqd sends.
const (
	nsqResponse = 0
	nsqMessage  = 2
)

// Layout of a message: time stamp, attempts, ID, then the body.
const (
	nsqIDStart   = 8 + 2
	nsqBodyStart = nsqIDStart + 16
)

func (u *nsqUser) request(ctx context.Context, n int) error {
	if err := setDeadline(ctx, u.conn); err != nil {
		return err
	}
	text := fmt.Sprintf("message %d", n)
	if err := u.send("PUB "+u.topic+"\n", text); err != nil {
		return err
	}
	for received, confirmed := false, false; !received || !confirmed; {
		kind, body, err := u.receive()
		switch {
		case err != nil:
			return err
		case kind == nsqResponse && string(body) == "OK":
			confirmed = true
		case kind == nsqMessage && len(body) >= nsqBodyStart && string(body[nsqBodyStart:]) == text:
			if _, err := fmt.Fprintf(u.conn, "FIN %s\n", body[nsqIDStart:nsqBodyStart]); err != nil {
				return err
			}
			received = true
		default:
			return fmt.Errorf("message %d is answered with a frame of kind %d: %q", n, kind, body)
		}
	}
	return nil
}

// send sends a command that has a body.
func (u *nsqUser) send(command, body string) error {
	_, err := u.conn.Write(append(binary.BigEndian.AppendUint32([]byte(command), uint32(len(body))), body...))
	return err
}

// receive reads one frame.
func (u *nsqUser) receive() (kind uint32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(u.conn, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > 1<<20 {
		return 0, nil, errors.New("not a frame of NSQ")
	}
	body = make([]byte, size-4)
	_, err = io.ReadFull(u.conn, body)
	return binary.BigEndian.Uint32(head[4:]), body, err
}

func (u *nsqUser) close() { u.conn.Close() }
