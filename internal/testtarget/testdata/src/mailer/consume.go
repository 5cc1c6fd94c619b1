package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

func consumerConfig() *settings {
	c := config()
	c.Consumer.Offsets.Initial = oldestOffset
	c.Consumer.MaxWaitTime = 20 * time.Millisecond
	c.Consumer.Group.Heartbeat.Interval = 50 * time.Millisecond
	return c
}

// A reader is what all handlers of a consumer group have in common.
type reader struct {
	left    int64 // messages that are still to be processed
	stop    func()
	process func(*received) error
}

func (r *reader) Setup(groupSession) error   { return nil }
func (r *reader) Cleanup(groupSession) error { return nil }

// one processes a message. The consumer stops after the last one.
//
//go:noinline
func (r *reader) one(s groupSession, msg *received) error {
	err := r.process(msg)
	s.MarkMessage(msg, "")
	if atomic.AddInt64(&r.left, -1) == 0 {
		r.stop()
	}
	return err
}

// ranger receives in a loop over the channel.
type ranger struct{ *reader }

func (r ranger) ConsumeClaim(s groupSession, c groupClaim) error {
	for msg := range c.Messages() {
		if err := r.one(s, msg); err != nil {
			return err
		}
	}
	return nil
}

// selecter receives in a select statement, among others.
type selecter struct{ reader }

func (r *selecter) ConsumeClaim(s groupSession, c groupClaim) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case msg, ok := <-c.Messages():
			if !ok {
				return nil
			}
			if err := r.one(s, msg); err != nil {
				return err
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

// caller has another function that receives.
type caller struct{ reader }

func (r *caller) ConsumeClaim(s groupSession, c groupClaim) error {
	return r.all(s, c.Messages())
}

//go:noinline
func (r *caller) all(s groupSession, messages <-chan *received) error {
	for {
		msg := <-messages
		if msg == nil {
			return nil
		}
		if err := r.one(s, msg); err != nil {
			return err
		}
	}
}

// handing has other goroutines that process messages, which it passes on by a channel of its own.
type handing struct{ reader }

func (r *handing) ConsumeClaim(s groupSession, c groupClaim) error {
	work := make(chan *received)
	var all sync.WaitGroup
	for i := 0; i < 2; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for msg := range work {
				check(r.one(s, msg))
			}
		}()
	}
	for msg := range c.Messages() {
		select {
		case work <- msg:
		case <-time.After(time.Minute):
		}
	}
	close(work)
	all.Wait()
	return nil
}

// crowded has several goroutines that receive from the channel.
type crowded struct{ reader }

func (r *crowded) ConsumeClaim(s groupSession, c groupClaim) error {
	var all sync.WaitGroup
	for i := 0; i < 3; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for msg := range c.Messages() {
				check(r.one(s, msg))
			}
		}()
	}
	all.Wait()
	return nil
}

// recovering recovers from panics.
type recovering struct{ reader }

func (r *recovering) ConsumeClaim(s groupSession, c groupClaim) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = nil
		}
	}()
	for msg := range c.Messages() {
		check(r.one(s, msg))
		panic("after a message")
	}
	return nil
}

// hidden receives in a function that cannot be found from its method.
type hidden struct {
	reader
	loop func(*reader, groupSession, groupClaim)
}

func (r *hidden) ConsumeClaim(s groupSession, c groupClaim) error {
	r.loop(&r.reader, s, c)
	return nil
}

func elsewhereLoop(r *reader, s groupSession, c groupClaim) {
	for msg := range c.Messages() {
		check(r.one(s, msg))
	}
}

// dropping counts messages.
type dropping struct{ reader }

func (r *dropping) ConsumeClaim(s groupSession, c groupClaim) error {
	for range c.Messages() {
		if atomic.AddInt64(&r.left, -1) == 0 {
			r.stop()
		}
	}
	return nil
}

func handler(kind string, r *reader) groupHandler {
	switch kind {
	case "drop":
		return &dropping{*r}
	case "range":
		return ranger{r}
	case "select":
		return &selecter{*r}
	case "call":
		return &caller{*r}
	case "hand":
		return &handing{*r}
	case "crowd":
		return &crowded{*r}
	case "panic":
		return &recovering{*r}
	case "hidden":
		return &hidden{*r, elsewhereLoop}
	}
	panic(kind)
}

// consume processes n messages of a topic as a member of a group.
func (m *mailer) consume(kind, group, topic string, n int, process func(*received) error) string {
	g, err := newConsumerGroup([]string{m.broker}, group, consumerConfig())
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{left: int64(n), stop: cancel, process: process}
	h := handler(kind, r)
	for ctx.Err() == nil {
		if err := g.Consume(ctx, []string{topic}, h); err != nil && ctx.Err() == nil {
			check(err)
		}
	}
	check(g.Close())
	return "ok"
}

var errProcess = errors.New("not processed")

// consumers are the commands.
func (m *mailer) consumers() map[string]command {
	ignore := func(*received) error { return nil }
	return map[string]command{
		"group": func(args []string) string { return m.consume(args[0], args[1], args[2], number(args[3]), ignore) },
		"refuse": func(args []string) string {
			return m.consume(args[0], args[1], args[2], number(args[3]), func(*received) error { return errProcess })
		},
		"forward": func(args []string) string {
			return m.consume(args[0], args[1], args[2], number(args[4]), func(msg *received) error {
				return result2(m.sync.SendMessage(&message{Topic: args[3], Key: stringEncoder("key"), Value: byteEncoder(msg.Value)}))
			})
		},
		"visit": func(args []string) string {
			m.serve()
			return m.consume(args[0], args[1], args[2], number(args[3]), func(msg *received) error {
				resp, err := http.Get("http://" + m.http + "/")
				check(err)
				_, err = io.Copy(io.Discard, resp.Body)
				check(err)
				return resp.Body.Close()
			})
		},
		"partitions": m.partitions,
		"join":       m.join,
		"leave":      m.leave,
	}
}

// A member is one of a group that goes on.
type member struct {
	ranger
	joined  chan bool // a session begins
	stopped chan bool
}

func (m *member) Setup(groupSession) error {
	m.joined <- true
	return nil
}

// join has another member join a group, after n messages in all have been processed, and waits until it has.
func (m *mailer) join(args []string) string {
	m.await(number(args[2]))
	if m.ctx == nil {
		m.ctx, m.cancel = context.WithCancel(context.Background())
	}
	g, err := newConsumerGroup([]string{m.broker}, args[0], consumerConfig())
	check(err)
	process := func(*received) error { atomic.AddInt64(&m.processed, 1); return nil }
	r := &member{ranger{&reader{process: process, stop: func() {}}}, make(chan bool, 100), make(chan bool)}
	m.members = append(m.members, r)
	go func() {
		for m.ctx.Err() == nil {
			check(g.Consume(m.ctx, []string{args[1]}, r))
		}
		check(g.Close())
		close(r.stopped)
	}()
	<-r.joined
	return "ok"
}

// leave has all members leave, after n messages in all have been processed.
func (m *mailer) leave(args []string) string {
	m.await(number(args[0]))
	m.cancel()
	for _, r := range m.members {
		<-r.stopped
	}
	return fmt.Sprint(atomic.LoadInt64(&m.processed))
}

// await waits until n messages have been processed.
func (m *mailer) await(n int) {
	for atomic.LoadInt64(&m.processed) < int64(n) {
		time.Sleep(time.Millisecond)
	}
}

func result2(_ int32, _ int64, err error) error { return err }

// partitions receives n messages of each of the first partitions of a topic, without a group.
func (m *mailer) partitions(args []string) string {
	c, err := newConsumer([]string{m.broker}, consumerConfig())
	check(err)
	var all sync.WaitGroup
	sum := int64(0)
	for i := 0; i < number(args[1]); i++ {
		p, err := c.ConsumePartition(args[0], int32(i), oldestOffset)
		check(err)
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < number(args[2]); j++ {
				msg := <-p.Messages()
				atomic.AddInt64(&sum, msg.Offset)
			}
			check(p.Close())
		}()
	}
	all.Wait()
	check(c.Close())
	return fmt.Sprint(sum)
}
