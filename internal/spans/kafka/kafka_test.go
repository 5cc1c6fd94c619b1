package kafka_test

import (
	"fmt"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/kafka"
	"github.com/loupe-go/loupe/spans"
)

// TestSet compares names and attributes of spans.
func TestSet(t *testing.T) {
	for _, c := range []struct {
		set  func(*spans.Span, kafka.Message)
		m    kafka.Message
		want string
	}{
		{kafka.SetSend, kafka.Message{Topic: "orders", Count: 1, Partition: kafka.Unknown, Offset: kafka.Unknown, Key: "k", Tombstone: true},
			"producer send orders [system=kafka operation.name=send operation.type=send destination.name=orders kafka.message.key=k kafka.message.tombstone=true]"},
		{kafka.SetSend, kafka.Message{Count: 3, Partition: kafka.Unknown, Offset: kafka.Unknown, Key: "k"},
			"producer send [system=kafka operation.name=send operation.type=send batch.message_count=3]"},
		{kafka.SetProcess, kafka.Message{Topic: "orders", Count: 1, Partition: 0, Offset: 7},
			"consumer process orders [system=kafka operation.name=process operation.type=process destination.name=orders destination.partition.id=0 kafka.offset=7]"},
	} {
		var s spans.Span
		c.set(&s, c.m)
		var list []string
		for _, a := range s.Attributes {
			list = append(list, fmt.Sprintf("%s=%s", a.Key[len("messaging."):], a.Value.String()))
		}
		if got := fmt.Sprintf("%s %s %v", s.Kind, s.Name, list); got != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.m, got, c.want)
		}
	}
}

// TestErrorName compares names of errors with those of Kafka's protocol.
func TestErrorName(t *testing.T) {
	for code, want := range map[int16]string{-1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 10: "MESSAGE_TOO_LARGE",
		56: "KAFKA_STORAGE_ERROR", 87: "INVALID_RECORD", 106: "FETCH_SESSION_TOPIC_ID_ERROR", 999: "999"} {
		if got := kafka.ErrorName(code); got != want {
			t.Errorf("%d: %s, want %s", code, got, want)
		}
	}
}

// TestKey checks that only keys which are texts are reported.
func TestKey(t *testing.T) {
	for key, want := range map[string]string{"": "", "order-7": "order-7", "größe": "größe", "\x00\x01": "", "a\nb": "", "\xff": ""} {
		if got := kafka.Key(probe.Text{Bytes: []byte(key)}); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	if got := kafka.Key(probe.Text{Bytes: []byte("abc"), Marks: probe.MarkCut}); got != "" {
		t.Errorf("the begin of a key is reported: %q", got)
	}
}

// TestServer splits addresses of brokers.
func TestServer(t *testing.T) {
	for address, want := range map[string]string{"": "[]", "[::1]:9092": "[server.address=::1 server.port=9092]", "broker": "[server.address=broker]"} {
		list := []string{}
		for _, a := range kafka.Server(address) {
			list = append(list, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
		}
		if got := fmt.Sprint(list); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
}
