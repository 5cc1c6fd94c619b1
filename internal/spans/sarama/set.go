// Package sarama is a set of probes for module github.com/IBM/sarama, and for the same module before it moved from
// github.com/Shopify/sarama: the messages that a program sends.
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
// Messages that a program receives are not reported: a program receives them from a channel, so that no function of the library is
// called when it receives or has processed a message. What the library does before, it does for all messages of a request to a broker at
// once, on a goroutine of its own: a span of that would have neither the parent nor the time of what the program does with a message.
//
// The central function is [New].
package sarama

import (
	"cmp"

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
		p.Without = cmp.Or(p.Without, "messages that sarama sends are not reported")
		p.Modules = []probe.Module{{Path: module, Since: v.since, Until: v.until}}
		set.Probes = append(set.Probes, p)
	}
	return set
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
	}
}
