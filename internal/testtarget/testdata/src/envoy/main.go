// Envoy sends and receives messages with github.com/twmb/franz-go. It builds with each version that a file such as franz-1.0.0.mod names.
//
// It adds the commands
//
//	broker ADDR     connects to a broker
//	send TOPIC N    sends N records with ProduceSync; the answer is `ok` or `failed`. The key of record 7 is `key7`, from 0 on
//	async TOPIC N   sends N records with Produce, and waits for their promises
//	default TOPIC N the same, with a client that has a default topic
//	erase TOPIC     sends a record without a value, whose key is not a text
//	traced TOPIC TRACEPARENT N  sends N records with this header, and others around it; `-` for none, twice if it begins with `+`
//	expired TOPIC   sends a record with a context that has ended
//	closed TOPIC    sends a record with a client that is closed
//	nowhere         sends a record without a topic
//	pooled TOPIC    has another goroutine send one for a request of HTTP
//	inside TOPIC    sends a record in a request of HTTP
//	load TOPIC N M  sends M records on each of N goroutines, one after the other
//	read TOPIC N    receives N records on a new goroutine, one with each call; the answer has the sum of their offsets
//	group GROUP TOPIC N  the same as a member of a group
//	poll N TOPICS   receives records on a new goroutine, until it has N, after it has waited for all of them; the answer has the numbers of
//	                calls and of records
//	hold TOPIC N    sends a record, and buffers N records until `flush`, which answers when they have been sent
//	flush
//	relay FROM TO N  receives N records, and sends each to another topic
//	retried TOPIC N sends N records, twice if the broker refuses them at first
//	garbage         collects garbage from now on, all the time
//	ended TOPIC N   asks for records with a context that has ended, and after N microseconds, of a client that is closed
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

	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "envoy: %v\n", err)
		os.Exit(2)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

var background = context.Background()

type envoy struct {
	broker string
	client *kgo.Client
	held   *kgo.Client
	failed int // of the records that were held
	http   string
}

func main() {
	e := &envoy{}
	serve(false, map[string]command{
		"broker": func(args []string) string {
			e.broker = args[0]
			e.client = e.open()
			return "ok"
		},
		"send": func(args []string) string {
			return result(e.client.ProduceSync(background, records(args[0], number(args[1]))...))
		},
		"async":   func(args []string) string { return async(e.client, records(args[0], number(args[1]))) },
		"default": e.byDefault,
		"erase": func(args []string) string {
			return result(e.client.ProduceSync(background, &kgo.Record{Topic: args[0], Key: []byte("\x00\xff")}))
		},
		"traced":  e.traced,
		"expired": e.expired,
		"closed":  e.closed,
		"nowhere": func([]string) string { return result(e.client.ProduceSync(background, &kgo.Record{})) },
		"inside":  e.inside,
		"pooled":  func(args []string) string { return e.inside([]string{"?pooled=" + args[0]}) },
		"load":    e.load,
		"read":    func(args []string) string { return e.receive(args[0], number(args[1]), nil) },
		"group": func(args []string) string {
			return e.receive(args[1], number(args[2]), nil, kgo.ConsumerGroup(args[0]))
		},
		"poll":  e.poll,
		"hold":  e.hold,
		"flush": e.flush,
		"relay": func(args []string) string {
			return e.receive(args[0], number(args[2]), func(r *kgo.Record) {
				check(e.client.ProduceSync(background, &kgo.Record{Topic: args[1], Value: r.Value}).FirstErr())
			})
		},
		"ended": e.ended,
		"retried": func(args []string) string {
			c := e.open(kgo.RecordRetries(5), kgo.MetadataMinAge(20*time.Millisecond))
			defer c.Close()
			return result(c.ProduceSync(background, records(args[0], number(args[1]))...))
		},
		"garbage": func([]string) string { go collect(); return "ok" },
	})
}

func (e *envoy) open(options ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(e.broker), kgo.ClientID("envoy"), kgo.RecordRetries(1), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, options...)...)
	check(err)
	return c
}

func result(r kgo.ProduceResults) string {
	if r.FirstErr() == nil {
		return "ok"
	}
	return "failed"
}

func records(topic string, n int) []*kgo.Record {
	list := make([]*kgo.Record, n)
	for i := range list {
		list[i] = &kgo.Record{Topic: topic, Key: []byte(fmt.Sprintf("key%d", i)), Value: []byte("value")}
	}
	return list
}

func async(c *kgo.Client, list []*kgo.Record) string {
	var all sync.WaitGroup
	all.Add(len(list))
	answer := "ok"
	for _, r := range list {
		c.Produce(background, r, func(_ *kgo.Record, err error) {
			if err != nil {
				answer = "failed"
			}
			all.Done()
		})
	}
	all.Wait()
	return answer
}

func (e *envoy) hold(args []string) string {
	e.held = e.open(kgo.ManualFlushing())
	for i, r := range records(args[0], 1+number(args[1])) {
		if i == 1 { // the client knows the topic after the first one
			check(e.held.Flush(background))
		}
		e.held.Produce(background, r, func(_ *kgo.Record, err error) {
			if err != nil {
				e.failed++
			}
		})
	}
	return "ok"
}

func (e *envoy) flush([]string) string {
	check(e.held.Flush(background))
	e.held.Close()
	if e.failed > 0 {
		return "failed"
	}
	return "ok"
}

func (e *envoy) byDefault(args []string) string {
	c := e.open(kgo.DefaultProduceTopic(args[0]))
	defer c.Close()
	return async(c, records("", number(args[1])))
}

func (e *envoy) traced(args []string) string {
	var list []*kgo.Record
	for i := 0; i < number(args[2]); i++ {
		r := &kgo.Record{Topic: args[0], Value: []byte("value"), Headers: []kgo.RecordHeader{{Key: "first", Value: []byte("1")}, {Key: "traceparenT"}, {}}}
		value := strings.TrimPrefix(args[1], "+")
		if value != "-" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(value)})
		}
		if value != args[1] {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(value)})
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "last"})
		list = append(list, r)
	}
	return result(e.client.ProduceSync(background, list...))
}

func (e *envoy) expired(args []string) string {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return result(e.client.ProduceSync(ctx, records(args[0], 1)...))
}

func (e *envoy) closed(args []string) string {
	c := e.open()
	c.Close()
	return result(c.ProduceSync(background, records(args[0], 1)...))
}

func (e *envoy) inside(args []string) string {
	if e.http == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		pool := elsewhere(2)
		e.http = l.Addr().String()
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if topic := r.URL.Query().Get("pooled"); topic != "" {
				pool(func() { io.WriteString(w, result(e.client.ProduceSync(r.Context(), records(topic, 1)...))) })
				return
			}
			io.WriteString(w, result(e.client.ProduceSync(background, records(r.URL.Path[1:], 1)...)))
		}))
	}
	resp, err := http.Get("http://" + e.http + "/" + args[0])
	check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(err)
	return string(text)
}

// each calls a function on each of n goroutines.
func each(n int, f func()) {
	var all sync.WaitGroup
	for i := 0; i < n; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			f()
		}()
	}
	all.Wait()
}

func (e *envoy) load(args []string) string {
	each(number(args[1]), func() {
		for i := 0; i < number(args[2]); i++ {
			check(e.client.ProduceSync(background, records(args[0], 1)...).FirstErr())
		}
	})
	return "ok"
}

// receive receives n records, and processes each with a function.
func (e *envoy) receive(topic string, n int, process func(*kgo.Record), options ...kgo.Opt) string {
	c := e.open(append(options, kgo.ConsumeTopics(topic))...)
	defer c.Close()
	sum := int64(0)
	each(1, func() {
		for i := 0; i < n; {
			fetches := c.PollRecords(background, 1)
			fetches.EachError(func(_ string, _ int32, err error) { check(err) })
			for _, r := range fetches.Records() {
				sum += r.Offset
				i++
				if len(options) > 0 {
					check(c.CommitRecords(background, r))
				}
				if process != nil {
					process(r)
				}
			}
		}
	})
	return fmt.Sprint(sum)
}

func (e *envoy) poll(args []string) string {
	n := number(args[0])
	c := e.buffered(n, args[1:])
	defer c.Close()
	calls, got := 0, 0
	each(1, func() {
		for got < n {
			calls++
			got += len(c.PollFetches(background).Records())
		}
	})
	return fmt.Sprint(calls, got)
}

// buffered returns a client with n records that can be polled at once. A client does not fetch the partitions that its first request lacks
// before it is polled: then another one takes its place.
func (e *envoy) buffered(n int, topics []string) *kgo.Client {
	for tries := 1; ; tries++ {
		c := e.open(kgo.ConsumeTopics(topics...))
		for end := time.Now().Add(time.Second); int(c.BufferedFetchRecords()) < n && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if int(c.BufferedFetchRecords()) >= n || tries == 10 {
			time.Sleep(50 * time.Millisecond) // until all brokers' fetches can be polled
			return c
		}
		c.Close()
	}
}

func (e *envoy) ended(args []string) string {
	c := e.open(kgo.ConsumeTopics(args[0]))
	ctx, cancel := context.WithCancel(background)
	cancel()
	got := 0
	each(1, func() {
		got += len(c.PollFetches(ctx).Records())
		time.Sleep(time.Duration(number(args[1])) * time.Microsecond)
		c.Close()
		got += len(c.PollFetches(background).Records())
	})
	return fmt.Sprint(got)
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
