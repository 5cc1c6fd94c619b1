// Mailer sends and receives messages with github.com/IBM/sarama, or, with the build tag shopify, with github.com/Shopify/sarama. It builds with each
// version that a file such as sarama-1.61.1.mod names.
//
// It adds the commands
//
//	broker ADDR     connects to a broker
//	one TOPIC N     sends N messages with one call each; the answer is `ok` or `failed`. The key of message 7 is `key7`, from 0 on
//	send TOPIC N    sends N messages with one call
//	async TOPIC N   sends N messages through the channel of an AsyncProducer that returns successes
//	silent TOPIC N  the same, but it does not return them
//	erase TOPIC     sends a message without a value, whose key is not a text
//	mute TOPIC      sends a message without asking for an answer
//	large TOPIC     sends a message that is too large
//	inside TOPIC    sends a message in a request of HTTP
//	traced TOPIC TRACEPARENT  sends a message with this header, and others around it; `-` for none, twice if it begins with `+`
//	custom TOPIC    sends a message whose value is an Encoder of the program
//	limit TOPIC N   sends a message whose size is N bytes below the limit
//	retried TOPIC   sends a message, twice if the broker refuses it at first
//	garbage         collects garbage from now on, all the time
//	load TOPIC N M  sends M messages, one in each call, on each of N goroutines
//	group KIND GROUP TOPIC N       processes N messages as a member of a group. KIND is how it receives them: see func handler
//	refuse KIND GROUP TOPIC N      the same, but each has an error
//	visit KIND GROUP TOPIC N       sends a request of HTTP for each
//	forward KIND GROUP FROM TO N   sends a message for each
//	join GROUP TOPIC N             another member joins a group, after members have processed N messages
//	leave N                        all members leave, after they have processed N messages; the answer is how many that are
//	partitions TOPIC N M           receives M messages of each of the first N partitions; the answer is the sum of their offsets
package main

import (
	"context"
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
)

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "mailer: %v\n", err)
		os.Exit(2)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

type mailer struct {
	broker string
	sync   syncProducer
	http   string

	members   []*member
	processed int64 // messages, by members
	ctx       context.Context
	cancel    func()
}

func main() {
	m := &mailer{}
	commands := m.consumers()
	for name, c := range map[string]command{
		"broker": func(args []string) string {
			m.broker = args[0]
			m.sync = m.open(config())
			return "ok"
		},
		"one":   m.one,
		"send":  func(args []string) string { return result(m.sync.SendMessages(messages(args[0], number(args[1])))) },
		"async": func(args []string) string { return m.async(args[0], number(args[1]), true) },
		"silent": func(args []string) string {
			return m.async(args[0], number(args[1]), false)
		},
		"erase": func(args []string) string {
			return m.message(m.sync, &message{Topic: args[0], Key: byteEncoder("\x00\xff")})
		},
		"mute": func(args []string) string {
			c := config()
			c.Producer.RequiredAcks = 0
			return m.message(m.open(c), messages(args[0], 1)[0])
		},
		"large": func(args []string) string {
			return m.message(m.sync, &message{Topic: args[0], Key: byteEncoder("large"), Value: byteEncoder(make([]byte, 2<<20))})
		},
		"inside": m.inside,
		"load":   m.load,
		"traced": m.traced,
		"retried": func(args []string) string {
			c := config()
			c.Producer.Retry.Max, c.Producer.Retry.Backoff, c.Metadata.Retry.Max = 2, time.Millisecond, 3
			return m.message(m.open(c), messages(args[0], 1)[0])
		},
		"custom": func(args []string) string {
			return m.message(m.sync, &message{Topic: args[0], Key: stringEncoder("custom"), Value: &number64{7}})
		},
		"limit": func(args []string) string {
			const overhead = 36 // of a message, as sarama computes its size
			value := make([]byte, config().Producer.MaxMessageBytes-overhead-len("limit")-number(args[1]))
			for i := range value {
				value[i] = 'x'
			}
			return m.message(m.sync, &message{Topic: args[0], Key: byteEncoder("limit"), Value: byteEncoder(value)})
		},
		"garbage": func([]string) string { go collect(); return "ok" },
	} {
		commands[name] = c
	}
	serve(false, commands)
}

func config() *settings {
	c := newConfig()
	c.ClientID = "mailer"
	c.Version = version
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = -1
	c.Producer.Retry.Max = 0
	c.Metadata.Retry.Max = 0
	c.Producer.Flush.Frequency = 2 * time.Millisecond
	return c
}

func (m *mailer) open(c *settings) syncProducer {
	p, err := newSyncProducer([]string{m.broker}, c)
	check(err)
	return p
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	return "failed"
}

func messages(topic string, n int) []*message {
	list := make([]*message, n)
	for i := range list {
		list[i] = &message{Topic: topic, Key: stringEncoder(fmt.Sprintf("key%d", i)), Value: stringEncoder("value")}
	}
	return list
}

func (m *mailer) message(p syncProducer, msg *message) string {
	headers := msg.Headers == nil
	_, _, err := p.SendMessage(msg)
	if (msg.Headers == nil) != headers {
		return "changed"
	}
	return result(err)
}

func (m *mailer) one(args []string) string {
	answer := "ok"
	for _, msg := range messages(args[0], number(args[1])) {
		answer = m.message(m.sync, msg)
	}
	return answer
}

func (m *mailer) async(topic string, n int, successes bool) string {
	c := config()
	c.Producer.Return.Successes = successes
	p, err := newAsyncProducer([]string{m.broker}, c)
	check(err)
	for _, msg := range messages(topic, n) {
		p.Input() <- msg
	}
	for i := 0; i < n && successes; i++ {
		<-p.Successes()
	}
	check(p.Close())
	return "ok"
}

// serve begins to serve requests of HTTP.
func (m *mailer) serve() {
	if m.http != "" {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	m.http = l.Addr().String()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if topic := r.URL.Path[1:]; topic != "" {
			io.WriteString(w, result(m.sync.SendMessages(messages(topic, 2))))
		}
	}))
}

func (m *mailer) inside(args []string) string {
	m.serve()
	resp, err := http.Get("http://" + m.http + "/" + args[0])
	check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(err)
	return string(text)
}

func (m *mailer) load(args []string) string {
	var all sync.WaitGroup
	for i := 0; i < number(args[1]); i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < number(args[2]); j++ {
				_, _, err := m.sync.SendMessage(messages(args[0], 1)[0])
				check(err)
			}
		}()
	}
	all.Wait()
	return "ok"
}

func (m *mailer) traced(args []string) string {
	msg := &message{Topic: args[0], Value: stringEncoder("value"), Headers: []header{{Key: []byte("first"), Value: []byte("1")}, {Key: []byte("traceparenT")}, {}}}
	value := strings.TrimPrefix(args[1], "+")
	if value != "-" {
		msg.Headers = append(msg.Headers, header{Key: []byte("traceparent"), Value: []byte(value)})
	}
	if value != args[1] {
		msg.Headers = append(msg.Headers, header{Key: []byte("traceparent"), Value: []byte(value)})
	}
	msg.Headers = append(msg.Headers, header{Key: []byte("last")})
	before := len(msg.Headers)
	answer := m.message(m.sync, msg)
	if len(msg.Headers) != before {
		return "changed"
	}
	return answer
}

// A number64 is an Encoder that is neither a string nor bytes.
type number64 struct{ n int }

func (n *number64) Encode() ([]byte, error) { return []byte(strconv.Itoa(n.n)), nil }
func (n *number64) Length() int             { return len(strconv.Itoa(n.n)) }

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
