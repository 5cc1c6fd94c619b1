// Command postoffice is a broker of Kafka's protocol.
//
// It adds the commands
//
//	address         answers with the address of the broker
//	topic NAME N    creates a topic with N partitions
//	stored TOPIC    answers with the number of messages that the topic has
//	records TOPIC   answers with the messages that the topic has, as another client of Kafka receives them, in the order of their partitions:
//	                `KEY|VALUE|NAME=VALUE;NAME=VALUE` with the headers, which have no spaces
//	fill TOPIC N    stores N messages in each partition. The key of message 7 is `key7`, from 0 on
//	post TOPIC NAME=VALUE;NAME=VALUE  stores a message with headers
//	fail CODE N     answers the next N requests to store messages with an error, none if N is 0
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const produce = 0 // the key of requests to store messages

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "postoffice: %v\n", err)
		os.Exit(2)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func main() {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	check(err)
	c.ControlKey(produce, func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return refuse(r.(*kmsg.ProduceRequest))
	})
	serve(false, map[string]command{
		"address": func([]string) string { return c.ListenAddrs()[0] },
		"topic": func(args []string) string {
			check(c.CreateTopic(args[0], int32(number(args[1])), nil))
			return "ok"
		},
		"stored": func(args []string) string {
			var n int64
			for _, p := range c.PartitionInfos(args[0]) {
				n += p.HighWatermark
			}
			return fmt.Sprint(n)
		},
		"records": func(args []string) string { return records(c, args[0]) },
		"fill":    func(args []string) string { fill(c, args[0], number(args[1])); return "ok" },
		"post":    func(args []string) string { post(c, args[0], strings.Split(args[1], ";")); return "ok" },
		"fail": func(args []string) string {
			refused.Lock()
			defer refused.Unlock()
			refused.code, refused.next = int16(number(args[0])), number(args[1])
			return "ok"
		},
	})
}

// fill stores n messages in each partition of a topic.
func fill(c *kfake.Cluster, topic string, n int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	defer client.Close()
	for _, p := range c.PartitionInfos(topic) {
		for i := 0; i < n; i++ {
			r := &kgo.Record{Topic: topic, Partition: p.Partition, Key: []byte(fmt.Sprintf("key%d", i)), Value: []byte("value")}
			check(client.ProduceSync(context.Background(), r).FirstErr())
		}
	}
}

// post stores a message with headers.
func post(c *kfake.Cluster, topic string, headers []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	check(err)
	defer client.Close()
	r := &kgo.Record{Topic: topic, Key: []byte("key"), Value: []byte("value")}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	check(client.ProduceSync(context.Background(), r).FirstErr())
}

// records returns the messages of a topic.
func records(c *kfake.Cluster, topic string) string {
	stored := int64(0)
	for _, p := range c.PartitionInfos(topic) {
		stored += p.HighWatermark
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check(err)
	defer client.Close()
	var list []*kgo.Record
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for int64(len(list)) < stored {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) { check(err) })
		list = append(list, fetches.Records()...)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return a.Partition < b.Partition || a.Partition == b.Partition && a.Offset < b.Offset
	})
	var text strings.Builder
	for i, r := range list {
		if i > 0 {
			text.WriteByte(' ')
		}
		fmt.Fprintf(&text, "%s|%s|", r.Key, r.Value)
		for j, h := range r.Headers {
			if j > 0 {
				text.WriteByte(';')
			}
			fmt.Fprintf(&text, "%s=%s", h.Key, h.Value)
		}
	}
	return text.String()
}

// refused are the requests to store messages that are answered with an error.
var refused struct {
	sync.Mutex
	code int16
	next int // how many
}

// refuse answers a request to store messages with an error if it is to be refused.
func refuse(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
	refused.Lock()
	defer refused.Unlock()
	if refused.next == 0 {
		return nil, nil, false
	}
	refused.next--
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, refused.code
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil, true
}
