// Package franz is a set of probes for package kgo of module github.com/twmb/franz-go: the records that a program sends, and those that
// it receives.
//
// Each record that is sent is a span, from the call of Produce, TryProduce or ProduceSync until before its promise is called. The broker
// is that with which the client begins, if there is only one. Before v1.4.0, a record without a topic and one outside of a transaction
// of a transactional client have no span.
//
// The records that one call of PollFetches or PollRecords returns are one span, which begins when the call returns: "process TOPIC" if
// they have the same topic. The headers of the first 64 records are searched for their senders, 32 of each record. If there are more,
// [join.Counts].Unsearched counts the span. If a call returns records of more than about 180 partitions, their number is not reported. See
// package kafka for the end of the span.
//
// With engine inline, records carry the contexts of their spans, if the session propagates contexts. A record gets no header if the program
// has set Record.Headers, if the record is not in the heap, or if it could then exceed the largest batch. Hooks that are called while the
// client has buffered the record, and partitioners, see the header; they must not keep it.
//
// Not reported are calls that return no record, records that a client drops when it is closed, errors of fetches, commits, and transactions.
//
// The central function is [New].
package franz

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package franz -out code.go -code code

// Library is the path of the instrumented package.
const Library = module + "/pkg/kgo"

const (
	module       = "github.com/twmb/franz-go"
	oldest       = 19       // the minor version of the oldest Go release that is supported
	oldestMod    = "v1.0.0" // the oldest version of the module that is supported
	produceSince = "v1.4.0" // the first one in which Produce calls produce
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// New returns a set that reports records to a tracker. typeName returns the name of the type at an address.
func New(t *join.Tracker, typeName func(addr uint64) (string, error)) *probe.Set {
	d := newDecoder(t, typeName)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode}
	const (
		send    = "records that franz-go sends are not reported"
		receive = "records that franz-go receives are not reported"
		client  = Library + ".(*Client)."
	)
	begin := probe.Declaration{Program: "send_begin", Words: 4, Without: send,
		Settings: []string{"record_key", "record_value", "record_topic", "client_brokers", "client_id", "direct", "record_headers"}}
	old, current := begin, begin
	old.Modules, old.Funcs = []probe.Module{{Path: module, Since: oldestMod, Until: produceSince}}, []string{client + "Produce"}
	old.Settings = append([]string{"client_topic", "client_transactional", "client_transaction"}, begin.Settings...)
	current.Modules, current.Funcs = []probe.Module{{Path: module, Since: produceSince}}, []string{client + "produce"}
	for _, p := range []probe.Declaration{old, current,
		{Program: "send_end", Funcs: []string{client + "finishRecordPromise"}, Words: 7, Without: send,
			Settings: []string{"record_partition", "record_offset", "record_topic", "error_name", "record_headers"}},
		{Program: "buffer", Funcs: []string{Library + ".(*recBuf).bufferRecord"}, Words: 5, Propagates: true, Lends: true, Fence: probe.Unfenced,
			Requires: "send_end", Without: "records that franz-go sends carry no traceparent header",
			Settings: []string{"record_headers", "record_key", "record_value", "buffer_limit"}},
		{Program: "ask", Funcs: []string{client + "PollRecords"}, Words: 1, Without: receive,
			Settings: []string{"client_brokers", "client_group", "client_id"}},
		{Program: "receive", Funcs: []string{client + "PollRecords"}, Place: probe.AtReturn, Results: 2, Without: receive,
			Settings: []string{"fetch_topics", "topic_name", "topic_partitions", "topic_size", "partition_number", "partition_records", "partition_size", "record_headers", "record_offset", "close_start", "close_size",
				"record_value", "record_key"}},
	} {
		p.Since, p.NeedsG, p.Reads, p.Quiet = oldest, true, true, true
		if p.Modules == nil {
			p.Modules = []probe.Module{{Path: module, Since: oldestMod}}
		}
		set.Probes = append(set.Probes, p)
	}
	return set
}

// settings are the offsets of fields and other numbers of the C half.
func settings() []probe.Setting {
	field := func(name, path string) probe.Setting { return sets.Field(name, Library+"."+path) }
	// The size of a struct is the end of its last field, which is a slice.
	size := func(name, last string) probe.Setting {
		s := field(name, last)
		s.Plus = func(probe.Program) uint64 { return 24 }
		return s
	}
	return []probe.Setting{
		field("record_key", "Record.Key"), field("record_value", "Record.Value"), field("record_headers", "Record.Headers"),
		field("record_topic", "Record.Topic"), field("record_partition", "Record.Partition"), field("record_offset", "Record.Offset"),
		field("buffer_limit", "recBuf.maxRecordBatchBytes"), field("fetch_topics", "Fetch.Topics"),
		field("topic_name", "FetchTopic.Topic"), field("topic_partitions", "FetchTopic.Partitions"), size("topic_size", "FetchTopic.Partitions"),
		field("partition_number", "FetchPartition.Partition"), field("partition_records", "FetchPartition.Records"),
		size("partition_size", "FetchPartition.Records"),
		field("client_id", "Client.cfg.id"), field("client_brokers", "Client.cfg.seedBrokers"), field("client_group", "Client.cfg.group"),
		field("client_topic", "Client.cfg.defaultProduceTopic"), field("client_transactional", "Client.cfg.txnID"),
		field("client_transaction", "Client.producer.producingTxn"), sets.Field("error_name", module+"/pkg/kerr.Error.Message"),
		{Name: "close_start", Value: func(p probe.Program) (uint64, error) {
			start, _ := closes(p)
			return start, nil
		}},
		{Name: "close_size", Value: func(p probe.Program) (uint64, error) {
			_, size := closes(p)
			return size, nil
		}},
		{Name: "direct", Offsets: []probe.Offset{{Module: probe.Module{Path: module, Since: oldestMod, Until: produceSince}, Offset: 1},
			{Module: probe.Module{Path: module, Since: produceSince}, Offset: 0}}},
	}
}

// closes returns the address and the size of the method that closes a client, or 0. Since v1.4.0 it polls to drop what was fetched.
func closes(p probe.Program) (start, size uint64) {
	for _, name := range []string{"close", "Close"} {
		if f, ok := p.Binary().LookupFunc(Library + ".(*Client)." + name); ok {
			return f.Entry + p.LoadBias(), f.End - f.Entry
		}
	}
	return 0, 0
}
