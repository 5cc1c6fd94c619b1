// Package sarama is a set of probes for module github.com/IBM/sarama, and for the same module before it moved from
// github.com/Shopify/sarama: the messages that a program sends, and those that it receives.
//
// Each message that is sent is a span. It ends when the producer is about to return its success or its error. That of a message of a
// SyncProducer begins with the call of SendMessage or SendMessages. That of a message of an AsyncProducer begins when the producer
// takes it from its channel, and it has no parent, because no function of the library is called where a program puts a message into the
// channel. The caller of SendMessages is known for the first 512 messages. At most 4096 messages of a batch are reported as ended. The end of a
// message that a producer refuses while it is being closed is not reported. The producer gives a message that the broker already has no
// offset; its offset is reported as 0.
//
// With engine inline, messages carry the contexts of their spans, if the session propagates contexts, from v1.21.0 on. A message gets no
// header if the program has set ProducerMessage.Headers, if the message is not in the heap, if its key or its value is an Encoder that is
// neither a string nor bytes, if it could then exceed Config.Producer.MaxMessageBytes, or if Config.Version is older than 0.11.
//
// A program receives messages from a channel, without a call of the library. If it does that in a method ConsumeClaim, in a function literal in
// one, or in a function of the same package that these call directly or by up to two others, the span of a message begins when the
// goroutine has received it, and ends when that goroutine is about to receive again from a channel of a partition, or ConsumeClaim returns: see
// package kafka. If ConsumeClaim returns an error while a message is processed, that is the error of the message. If the goroutine
// passes a message on to another one, which processes it, its span is only the time until the next receive; what the other goroutine
// does is not part of it. No probes have receives of a select statement with one case and default, receives that drop the message, and those of
// functions with further frames if the functions have more than six different ones for receives, or four for select statements.
//
// With engine inline on amd64 a probe must have room: at an instruction after the receive that is longer than a jump, or at a call of a
// function by its name, before any other call. A loop over the channel always has one. If there is none, the messages are reported like those
// that are received elsewhere. After select statements, the probe of engine inline is at the end of selectgo: each select statement of the
// program takes a little longer.
//
// Messages that a program receives elsewhere, as it does from a PartitionConsumer that it has made itself, are spans, too, each without a
// duration, when the library gets it from the broker: "receive TOPIC" of kind client. Their parent is the sender. They are reported when the
// library gets its next answer from the broker, or the PartitionConsumer is closed, and only if the program has taken the message from the channel
// by then; a message that the library drops then can be among them. At most 4096 messages of an answer are reported like that.
//
// Not reported are commits of offsets and errors of requests for messages.
//
// The central function is [New].
package sarama

import (
	"cmp"
	"fmt"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package sarama -out code.go -code code

// The paths of the instrumented module.
const (
	IBM     = "github.com/IBM/sarama"
	Shopify = "github.com/Shopify/sarama"
)

const oldest = 19 // the minor version of the oldest Go release that is supported

// Versions in which functions changed.
const (
	oldestIBM      = "v1.40.0"
	oldestShopify  = "v1.19.0"
	limitedShopify = "v1.21.0" // batches are limited in size even if they are not compressed
	exportedSize   = "v1.36.0" // byteSize is ByteSize
	batchedErrors  = "v1.61.1" // returnErrors does not call returnError for each message
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// New returns a set that reports messages of a module, IBM or Shopify, to a tracker. typeName returns the name of the type at an address.
func New(t *join.Tracker, typeName func(addr uint64) (string, error), module string) *probe.Set {
	d := newDecoder(t, typeName, module)
	set := &probe.Set{Name: module, Code: &code, Settings: settings(module), Decode: d.decode}
	since, limited := oldestIBM, oldestIBM
	if module == Shopify {
		since, limited = oldestShopify, limitedShopify
	}
	const (
		send    = "messages that sarama sends are not reported"
		receive = "messages that sarama receives are not reported"
		process = "how long messages that sarama receives are processed is not reported everywhere"
	)
	begin := []string{"message_topic", "message_key", "message_value", "message_headers"}
	end := []string{"message_topic", "message_headers", "message_partition", "message_offset", "producer_config", "config_client", "config_acks"}
	const async, sync = ".(*asyncProducer).", ".(*syncProducer)."
	dispatch := probe.Declaration{Program: "dispatch", Funcs: []string{module + async + "dispatcher"}, Place: probe.AtCall,
		Settings: append([]string{"message_retries"}, begin...)}
	old, current := dispatch, dispatch
	old.Callee, current.Callee = module+".(*ProducerMessage).byteSize", module+".(*ProducerMessage).ByteSize"
	for _, v := range []struct {
		since, until string
		p            probe.Declaration
	}{
		{since, "", probe.Declaration{Program: "send", Funcs: []string{module + sync + "SendMessage"}, Words: 2, Settings: begin}},
		{since, "", probe.Declaration{Program: "send_all", Funcs: []string{module + sync + "SendMessages"}, Words: 3, Settings: begin}},
		{since, exportedSize, old},
		{exportedSize, "", current},
		{since, "", probe.Declaration{Program: "sent", Funcs: []string{module + async + "returnSuccesses"}, Words: 3, Settings: end}},
		{since, batchedErrors, probe.Declaration{Program: "failed", Funcs: []string{module + async + "returnError"}, Words: 4, Settings: end}},
		{batchedErrors, "", probe.Declaration{Program: "all_failed", Funcs: []string{module + async + "returnErrors"}, Words: 6, Settings: end}},
		{limited, "", probe.Declaration{Program: "overflow", Funcs: []string{module + ".(*produceSet).wouldOverflow"}, Words: 2, Propagates: true, Lends: true, Fence: probe.Unfenced,
			Requires: "sent", Without: "messages that sarama sends carry no traceparent header",
			Settings: []string{"message_headers", "message_key", "message_value", "set_producer", "producer_config", "config_version", "config_limit"}}},
	} {
		p := v.p
		p.Since, p.NeedsG, p.Reads, p.Quiet = oldest, true, true, true
		p.Without = cmp.Or(p.Without, send)
		p.Modules = []probe.Module{{Path: module, Since: v.since, Until: v.until}}
		set.Probes = append(set.Probes, p)
	}
	for _, p := range receiving(module) {
		p.Since, p.NeedsG, p.Reads, p.Quiet = oldest, true, true, true
		p.Without = receive
		if p.Find != nil {
			p.Without = process
		}
		p.Modules = []probe.Module{{Path: module, Since: since}}
		set.Probes = append(set.Probes, p)
	}
	return set
}

// Numbers of the probes that differ only in where the functions of a program have a variable.
const (
	takens  = 6
	chosens = 4
)

// receiving returns the declarations of messages that a program receives, without what they have in common.
func receiving(module string) []probe.Declaration {
	const recv1, recv2, selectgo = "runtime.chanrecv1", "runtime.chanrecv2", "runtime.selectgo"
	find := claims(module)
	message := []string{"received_topic", "received_key", "received_value", "received_headers", "received_partition", "received_offset"}
	child := module + ".(*partitionConsumer)."
	feeder := []string{child + "responseFeeder"}
	list := []probe.Declaration{
		{Program: "response", Funcs: []string{child + "parseResponse"}, Words: 1,
			Settings: []string{"child_messages", "child_consumer", "child_config", "config_client"}},
		{Program: "fed", Funcs: feeder, Place: probe.AfterCall, Callee: child + "parseResponse", Results: 2, Requires: "response", Settings: message},
		{Program: "fed_all", Funcs: feeder, Place: probe.AtCall, Callee: "runtime.closechan", Requires: "response"},
		{Program: "group", Funcs: []string{module + ".(*consumerGroupSession).consume"}, Words: 1, Requires: "response",
			Settings: []string{"session_parent", "group_consumer", "group_id"}},
		{Program: "claim_failed", Funcs: []string{module + ".(*consumerGroup).handleError"}, Words: 3, Requires: "response"},
		{Program: "claim_end", Funcs: []string{module + ".(*consumerGroupClaim).waitClosed"}, Words: 1, Requires: "response"},
	}
	for i := range takens {
		list = append(list, probe.Declaration{Program: fmt.Sprint("taken", i), Find: find, Place: probe.AfterCall, Callee: recv1, Callees: []string{recv2},
			Local: &probe.Local{Word: 1, Nth: i, Last: i == takens-1}, Requires: "response", Settings: message})
	}
	for i := range chosens {
		list = append(list, probe.Declaration{Program: fmt.Sprint("chosen", i), Find: find, Place: probe.AfterCall, Callee: selectgo, Results: 2, Only: probe.KernelEngines,
			Local: &probe.Local{Word: 0, Nth: i, Last: i == chosens-1}, Requires: "response", Settings: append([]string{"channel_size", "channel_type"}, message...)})
	}
	selecting := func(bin *gobin.Binary) ([]gobin.Func, error) {
		found, err := find(bin)
		f, ok := bin.LookupFunc(selectgo)
		if err != nil || len(found) == 0 || !ok {
			return nil, err
		}
		return []gobin.Func{f}, nil
	}
	return append(list,
		probe.Declaration{Program: "selected", Find: selecting, Place: probe.AtReturn, Results: 2, Only: probe.NativeEngines, Requires: "response",
			Settings: append([]string{"channel_size", "channel_type"}, message...)},
		probe.Declaration{Program: "ask", Find: find, Place: probe.AtCall, Callee: recv1, Callees: []string{recv2}, Requires: "taken0",
			Settings: []string{"channel_size", "channel_type"}},
		probe.Declaration{Program: "ask_select", Find: find, Place: probe.AtCall, Callee: selectgo, Requires: "response",
			Settings: []string{"channel_size", "channel_type"}})
}

// settings are the offsets of fields.
func settings(module string) []probe.Setting {
	field := func(name, path string) probe.Setting { return sets.Field(name, module+"."+path) }
	return []probe.Setting{
		field("message_topic", "ProducerMessage.Topic"), field("message_key", "ProducerMessage.Key"), field("message_value", "ProducerMessage.Value"),
		field("message_partition", "ProducerMessage.Partition"), field("message_offset", "ProducerMessage.Offset"),
		field("message_retries", "ProducerMessage.retries"),
		field("producer_config", "asyncProducer.conf"), field("config_client", "Config.ClientID"), field("config_acks", "Config.Producer.RequiredAcks"),
		field("message_headers", "ProducerMessage.Headers"), field("set_producer", "produceSet.parent"),
		field("config_version", "Config.Version"), field("config_limit", "Config.Producer.MaxMessageBytes"),
		field("received_topic", "ConsumerMessage.Topic"), field("received_key", "ConsumerMessage.Key"), field("received_value", "ConsumerMessage.Value"),
		field("received_headers", "ConsumerMessage.Headers"), field("received_partition", "ConsumerMessage.Partition"),
		field("received_offset", "ConsumerMessage.Offset"),
		sets.Field("channel_size", "runtime.hchan.elemsize"), sets.Field("channel_type", "runtime.hchan.elemtype"),
		field("child_messages", "partitionConsumer.messages"), field("child_consumer", "partitionConsumer.consumer"),
		field("child_config", "partitionConsumer.conf"), field("session_parent", "consumerGroupSession.parent"),
		field("group_consumer", "consumerGroup.consumer"), field("group_id", "consumerGroup.groupID"),
	}
}
