// Command courier sends and receives messages with github.com/segmentio/kafka-go. It builds with each version that a file such as kafka-0.4.1.mod
// names. The build tag kafka0.4.1 omits what that version does not have.
//
// It adds the commands
//
//	broker ADDR     connects to a broker
//	send TOPIC N    sends N messages in one call; the answer is `ok` or the error. The key of message 7 is `key7`, from 0 on
//	many TOPIC N    sends N messages in one call each
//	async TOPIC N   sends N messages in one call, and waits until they are sent after the call
//	empty TOPIC     sends no messages
//	erase TOPIC     sends a message without a value, whose key is not a text
//	traced TOPIC TRACEPARENT  sends a message with this header, and others around it; `-` for none, twice if it begins with `+`
//	mixed A B       sends a message to each of two topics in one call
//	expired TOPIC   sends a message with a context that has ended
//	closed TOPIC    sends a message with a Writer that is closed
//	refused         sends a message to a broker that does not exist
//	pooled TOPIC    has another goroutine send one for a request of HTTP
//	inside TOPIC    sends a message in a request of HTTP
//	load TOPIC N M  sends M messages, one in each call, on each of N goroutines
//	read TOPIC N    receives N messages on a new goroutine with ReadMessage; the answer has the sum of their offsets
//	group GROUP TOPIC N  the same as a member of a group
//	fetch GROUP TOPIC N  the same with FetchMessage and CommitMessages
//	relay FROM TO N  receives N messages, and sends each to another topic
//	crowd TOPIC N M  receives M messages on each of N goroutines
//	retried TOPIC N sends N messages in one call, twice if the broker refuses them at first, and compressed
//	garbage         collects garbage from now on, all the time
//	ended TOPIC     asks for a message with a context that has ended, and of a Reader that is closed
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "courier: %v\n", err)
		os.Exit(2)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

var background = context.Background()

type courier struct {
	broker  string
	writers sync.Map // by topic
	http    string
}

func main() {
	c := &courier{}
	serve(false, map[string]command{
		"broker":  func(args []string) string { c.broker = args[0]; return "ok" },
		"send":    func(args []string) string { return result(c.write(args[0], messages(number(args[1]))...)) },
		"many":    c.many,
		"async":   c.async,
		"empty":   func(args []string) string { return result(c.write(args[0])) },
		"erase":   func(args []string) string { return result(c.write(args[0], kafka.Message{Key: []byte("\x00\xff")})) },
		"traced":  c.traced,
		"mixed":   func(args []string) string { return c.mixed(args[0], args[1]) },
		"expired": c.expired,
		"closed":  c.closed,
		"refused": c.refused,
		"inside":  c.inside,
		"pooled":  func(args []string) string { return c.inside([]string{"?pooled=" + args[0]}) },
		"load":    c.load,
		"read":    func(args []string) string { return c.receive("", args[0], number(args[1]), nil) },
		"group":   func(args []string) string { return c.receive(args[0], args[1], number(args[2]), nil) },
		"fetch":   c.fetch,
		"relay": func(args []string) string {
			return c.receive("", args[0], number(args[2]), func(m kafka.Message) { check(c.write(args[1], kafka.Message{Value: m.Value})) })
		},
		"crowd": c.crowd,
		"ended": c.ended,
		"retried": func(args []string) string {
			w := c.newWriter(args[0])
			w.MaxAttempts, w.Compression = 2, kafka.Gzip
			defer w.Close()
			return result(w.WriteMessages(background, messages(number(args[1]))...))
		},
		"garbage": func([]string) string { go collect(); return "ok" },
	})
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	return "failed"
}

func messages(n int) []kafka.Message {
	list := make([]kafka.Message, n)
	for i := range list {
		list[i] = kafka.Message{Key: []byte(fmt.Sprintf("key%d", i)), Value: []byte("value")}
	}
	return list
}

func (c *courier) newWriter(topic string) *kafka.Writer {
	return &kafka.Writer{Addr: kafka.TCP(c.broker), Topic: topic, BatchTimeout: 5 * time.Millisecond, RequiredAcks: kafka.RequireOne, MaxAttempts: 1,
		Transport: &kafka.Transport{ClientID: "courier"}}
}

func (c *courier) write(topic string, messages ...kafka.Message) error {
	return c.writeWith(background, topic, messages...)
}

func (c *courier) writeWith(ctx context.Context, topic string, messages ...kafka.Message) error {
	w, ok := c.writers.Load(topic)
	if !ok {
		w, _ = c.writers.LoadOrStore(topic, c.newWriter(topic))
	}
	return w.(*kafka.Writer).WriteMessages(ctx, messages...)
}

func (c *courier) many(args []string) string {
	for _, m := range messages(number(args[1])) {
		check(c.write(args[0], m))
	}
	return "ok"
}

func (c *courier) async(args []string) string {
	w := c.newWriter(args[0])
	w.Async = true
	err := w.WriteMessages(background, messages(number(args[1]))...)
	check(w.Close())
	return result(err)
}

func (c *courier) traced(args []string) string {
	m := kafka.Message{Value: []byte("value"), Headers: []kafka.Header{{Key: "first", Value: []byte("1")}, {Key: "traceparenT", Value: []byte("2")}, {}}}
	value := strings.TrimPrefix(args[1], "+")
	if value != "-" {
		m.Headers = append(m.Headers, kafka.Header{Key: "traceparent", Value: []byte(value)})
	}
	if value != args[1] {
		m.Headers = append(m.Headers, kafka.Header{Key: "traceparent", Value: []byte(value)})
	}
	m.Headers = append(m.Headers, kafka.Header{Key: "last"})
	return result(c.write(args[0], m))
}

func (c *courier) expired(args []string) string {
	w := c.newWriter(args[0])
	defer w.Close()
	check(w.WriteMessages(background, messages(1)...)) // it knows the topic
	w.BatchTimeout = time.Second
	ctx, cancel := context.WithCancel(background)
	cancel()
	return result(w.WriteMessages(ctx, messages(1)...))
}

func (c *courier) closed(args []string) string {
	w := c.newWriter(args[0])
	check(w.Close())
	return result(w.WriteMessages(background, messages(1)...))
}

func (c *courier) refused([]string) string {
	w := c.newWriter("letters")
	w.Addr = kafka.TCP("127.0.0.1:1")
	w.ReadTimeout = 100 * time.Millisecond
	defer w.Close()
	return result(w.WriteMessages(background, messages(1)...))
}

func (c *courier) inside(args []string) string {
	if c.http == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		pool := elsewhere(2)
		c.http = l.Addr().String()
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if topic := r.URL.Query().Get("pooled"); topic != "" {
				pool(func() { io.WriteString(w, result(c.writeWith(r.Context(), topic, messages(1)...))) })
				return
			}
			io.WriteString(w, result(c.write(r.URL.Path[1:], messages(1)...)))
		}))
	}
	resp, err := http.Get("http://" + c.http + "/" + args[0])
	check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(err)
	return string(text)
}

// each calls a function on each of n goroutines.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			f(i)
		}(i)
	}
	all.Wait()
}

func (c *courier) load(args []string) string {
	each(number(args[1]), func(int) {
		for i := 0; i < number(args[2]); i++ {
			check(c.write(args[0], messages(1)...))
		}
	})
	return "ok"
}

func (c *courier) reader(group, topic string) *kafka.Reader {
	dialer := *kafka.DefaultDialer
	dialer.ClientID = "courier"
	return kafka.NewReader(kafka.ReaderConfig{Brokers: []string{c.broker}, GroupID: group, Topic: topic, MaxWait: 50 * time.Millisecond, Dialer: &dialer,
		StartOffset: kafka.FirstOffset, HeartbeatInterval: 100 * time.Millisecond})
}

// receive receives n messages, and processes each with a function.
func (c *courier) receive(group, topic string, n int, process func(kafka.Message)) string {
	r := c.reader(group, topic)
	defer r.Close()
	sum := int64(0)
	each(1, func(int) {
		for i := 0; i < n; i++ {
			m, err := r.ReadMessage(background)
			check(err)
			sum += m.Offset
			if process != nil {
				process(m)
			}
		}
	})
	return fmt.Sprint(sum)
}

func (c *courier) fetch(args []string) string {
	r := c.reader(args[0], args[1])
	defer r.Close()
	sum := int64(0)
	each(1, func(int) {
		for i := 0; i < number(args[2]); i++ {
			m, err := r.FetchMessage(background)
			check(err)
			check(r.CommitMessages(background, m))
			sum += m.Offset
		}
	})
	return fmt.Sprint(sum)
}

func (c *courier) crowd(args []string) string {
	r := c.reader("", args[0])
	defer r.Close()
	each(number(args[1]), func(int) {
		for i := 0; i < number(args[2]); i++ {
			_, err := r.FetchMessage(background)
			check(err)
		}
	})
	return "ok"
}

func (c *courier) ended(args []string) string {
	r := c.reader("", args[0])
	check(r.SetOffset(kafka.LastOffset)) // no message can arrive: one that has may be returned in spite of the end
	ctx, cancel := context.WithCancel(background)
	cancel()
	failed := 0
	each(1, func(int) {
		if _, err := r.ReadMessage(ctx); errors.Is(err, context.Canceled) {
			failed++
		}
		check(r.Close())
		if _, err := r.FetchMessage(background); errors.Is(err, io.EOF) {
			failed++
		}
	})
	return fmt.Sprint(failed)
}

// collect collects garbage, and uses the memory that was freed.
func collect() {
	for {
		runtime.GC()
		for i := 0; i < 1000; i++ {
			garbage.Store(i%16, make([]byte, 32+i%512))
		}
	}
}

var garbage sync.Map
