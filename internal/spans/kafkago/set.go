// Package kafkago is a set of probes for module github.com/segmentio/kafka-go: the messages that a program sends with a Writer, and those
// that it receives with a Reader.
//
// The span of messages that are sent is a call of WriteMessages. If the Writer is asynchronous, the span ends when all batches with its
// messages have been written or have failed. Before v0.4.41 it ends when the call returns, and contains neither that time nor an error of a
// broker, and a message has no partition and no offset. If the messages have different topics, or are more than 64 that name their topic
// themselves, no topic is reported. The error is that of the first message that failed.
//
// The span of a message that is received begins when FetchMessage or ReadMessage returns it. ReadMessage commits the offset before that.
// See package kafka for its end.
//
// With engine inline, messages carry the context of the span of their call, if the session propagates contexts, from v0.4.41 on. A message
// gets no header if it has more than 32 others, if it could then exceed Writer.BatchBytes, or if it is encoded in the format from before
// Kafka 0.11. The header is not in the messages that Writer.Completion gets.
//
// Not reported are calls that return no message, commits, and what a program does with a Conn or a Client.
//
// The central function is [New].
package kafkago

import (
	"errors"
	"strings"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package kafkago -out code.go -code code

// Library is the path of the instrumented module.
const Library = "github.com/segmentio/kafka-go"

const (
	oldest    = 19        // the minor version of the oldest Go release that is supported
	oldestMod = "v0.4.1"  // the oldest version of the module that is supported
	separate  = "v0.4.41" // that of the first one in which a function adds a message to a batch
	large     = "v0.4.11" // that of the first one whose messages do not fit into the registers of arm64
)

const fetch, read = Library + ".(*Reader).FetchMessage", Library + ".(*Reader).ReadMessage"

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// New returns a set that reports messages to a tracker. typeName returns the name of the type at an address.
func New(t *join.Tracker, typeName func(addr uint64) (string, error)) *probe.Set {
	d := newDecoder(t, typeName)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode}
	const (
		send    = "messages that kafka-go sends are not reported"
		receive = "messages that kafka-go receives are not reported"
	)
	message := []string{"message_on_stack", "message_topic", "message_partition", "message_offset", "message_key", "message_value", "message_headers"}
	write := Library + ".(*Writer).WriteMessages"
	const noHeaders = "messages that kafka-go sends carry no traceparent header"
	const version2 = Library + "/protocol.(*RecordSet).writeToVersion2"
	const batches = "results of batches of kafka-go are not reported"
	current := []probe.Module{{Path: Library, Since: separate}}
	for _, p := range []probe.Declaration{
		{Program: "send_begin", Funcs: []string{write}, Words: 5, Without: send, Settings: []string{"message_size", "message_topic", "message_key",
			"message_value", "writer_addr", "writer_topic", "writer_transport", "writer_async", "transport_client", "address_text"}},
		{Program: "send_end", Funcs: []string{write}, Place: probe.AtReturn, Results: 2, Without: send},
		{Program: "join", Modules: current, Funcs: []string{Library + ".(*writeBatch).add"}, Words: 3, Without: batches,
			Settings: []string{"message_size", "batch_size", "batch_messages", "batch_bytes", "message_key", "message_value", "message_headers", "message_on_stack"}},
		{Program: "written", Modules: current, Funcs: []string{Library + ".(*partitionWriter).writeBatch"}, Place: probe.AtCall, Callee: "runtime.closechan",
			Without: batches, Settings: []string{"batch_messages", "batch_size", "batch_done", "batch_error", "partition_topic", "partition_number",
				"partition_writer", "writer_acks", "message_offset"}},
		{Program: "ask", Funcs: []string{fetch}, Words: 1, Without: receive,
			Settings: []string{"reader_brokers", "reader_group", "reader_dialer", "dialer_client"}},
		{Program: "fetched", Funcs: []string{fetch}, Place: probe.AtReturn, Results: 1, Without: receive,
			Settings: append([]string{"read_start", "read_size"}, message...)},
		{Program: "read", Funcs: []string{read}, Place: probe.AtReturn, Results: 1, Without: receive, Settings: message},
		{Program: "recorded", Modules: current, Funcs: []string{version2}, Place: probe.AtCall, Callee: "hash/crc32.MakeTable",
			Propagates: true, Fence: probe.Untimed, Without: noHeaders},
		{Program: "produce", Modules: current, Funcs: []string{Library + ".(*Writer).produce"}, Words: 5, Propagates: true, Fence: probe.Unfenced,
			Requires: "recorded", Without: noHeaders, Settings: []string{"batch_messages"}},
		{Program: "record", Modules: current, Funcs: []string{version2 + ".func1"}, Words: 2, Propagates: true, Lends: true, Fence: probe.Unfenced,
			Requires: "produce", Without: noHeaders, Settings: []string{"records_messages", "records_index", "records_record", "record_headers"}},
	} {
		p.Since, p.NeedsG, p.Reads, p.Quiet = oldest, true, true, true
		if p.Modules == nil {
			p.Modules = []probe.Module{{Path: Library, Since: oldestMod}}
		}
		set.Probes = append(set.Probes, p)
	}
	return set
}

// settings are the offsets of fields and other numbers of the C half.
func settings() []probe.Setting {
	field := func(name, path string) probe.Setting {
		if strings.HasPrefix(path, "protocol.") {
			return sets.Field(name, Library+"/"+path)
		}
		return sets.Field(name, Library+"."+path)
	}
	size := field("message_size", "Message.Time") // the last field
	size.Plus = func(probe.Program) uint64 { return 24 }
	number := field("partition_number", "partitionWriter.meta") // a topicPartition: a string and the number
	number.Plus = func(probe.Program) uint64 { return 16 }
	return []probe.Setting{
		size, field("message_topic", "Message.Topic"), field("message_partition", "Message.Partition"), field("message_offset", "Message.Offset"),
		field("message_key", "Message.Key"), field("message_value", "Message.Value"), field("message_headers", "Message.Headers"),
		{Name: "message_on_stack", Value: onStack},
		field("writer_addr", "Writer.Addr"), field("writer_topic", "Writer.Topic"), field("writer_transport", "Writer.Transport"),
		field("writer_async", "Writer.Async"), field("writer_acks", "Writer.RequiredAcks"),
		field("batch_messages", "writeBatch.msgs"), field("batch_size", "writeBatch.size"), field("batch_done", "writeBatch.done"),
		field("batch_error", "writeBatch.err"), field("batch_bytes", "writeBatch.bytes"),
		field("records_messages", "writerRecords.msgs"), field("records_index", "writerRecords.index"), field("records_record", "writerRecords.record"),
		field("record_headers", "protocol.Record.Headers"),
		field("partition_writer", "partitionWriter.w"), field("partition_topic", "partitionWriter.meta"), number,
		field("transport_client", "Transport.ClientID"), field("address_text", "networkAddress.address"),
		field("reader_brokers", "Reader.config.Brokers"), field("reader_group", "Reader.config.GroupID"), field("reader_dialer", "Reader.config.Dialer"),
		field("dialer_client", "Dialer.ClientID"),
		{Name: "read_start", Value: func(p probe.Program) (uint64, error) {
			start, _ := readMessage(p)
			return start, nil
		}},
		{Name: "read_size", Value: func(p probe.Program) (uint64, error) {
			_, size := readMessage(p)
			return size, nil
		}},
	}
}

// onStack returns 1, or an error if a function returns a message in registers.
func onStack(p probe.Program) (uint64, error) {
	if p.Binary().Arch() == "arm64" && !(probe.Module{Path: Library, Since: large}).In(p.Binary()) {
		return 0, errors.New("messages are in registers on arm64 before " + large)
	}
	return 1, nil
}

// readMessage returns the address and the size of (*Reader).ReadMessage, or 0.
func readMessage(p probe.Program) (start, size uint64) {
	f, ok := p.Binary().LookupFunc(read)
	if !ok {
		return 0, 0
	}
	return f.Entry + p.LoadBias(), f.End - f.Entry
}
