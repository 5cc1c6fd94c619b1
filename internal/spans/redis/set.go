// Package redis is a set of probes for modules github.com/redis/go-redis/v9 and github.com/go-redis/redis/v8: the commands, pipelines and
// transactions that a program sends to Redis.
//
// A command is a span, and so is a pipeline or a transaction (MULTI and EXEC), whichever client sends it: Client, Conn, Tx, Ring,
// ClusterClient, or one with sentinels. The span begins after the hooks of the client, before the client gets a connection. It ends when
// the reply has been read and the connection is released, so it contains the wait for a connection and all attempts with the pauses
// between them. A value that does not exist (redis.Nil) is no error.
//
// The name of a span is that of the command as the client sends it, such as "get". The name of a pipeline is PIPELINE and that of a
// transaction MULTI, followed by the name of the commands if it is the same for all and there are at most 128. A pipeline of one command
// has the name of the command.
//
// A Ring or a ClusterClient sends a pipeline to several nodes: each part is a span. If a cluster redirects a command, the command has a
// span for each node that received it, the first of which has failed with MOVED or ASK. The commands with which such clients find and
// check nodes, such as "cluster slots", "sentinel" and "ping", are spans as well. Those with which a connection begins, such as "hello"
// and "select", are not, nor is what Options.OnConnect sends.
//
// A pipeline fails if it cannot be sent or its replies cannot be read, and since v9 if its first command fails. The errors of its other
// commands are not reported. If the context of an operation ends while the client pauses before another attempt, the span ends then;
// before v8.10.0 it ends with the last attempt, and has its error. An operation that panics ends when its connection is released.
//
// The address of the peer is that of the last attempt, unless the connection is encrypted or of a type of the program.
//
// The text of a command has its name and its keys; all other arguments are question marks. At most 5 keys, and 128 bytes of each, are
// reported. Pipelines and transactions have no text.
//
// Not reported are subscriptions and the messages that they receive, commands that the cache of a client answers or fetches with others
// (since v9.22.0), those that an AutoPipeliner sends in full duplex (since v9.23.0), and, in programs that the compiler of Go 1.21 or
// later has built, pipelines of a ClusterClient of v8.
//
// The central function is [New].
package redis

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package redis -out code.go -code code

// The instrumented modules.
const (
	V8 = "github.com/go-redis/redis/v8"
	V9 = "github.com/redis/go-redis/v9"
)

const oldest = 19 // the minor version of the oldest Go release that is supported

// Versions of V9 in which functions changed.
const (
	wrappedSince = "v9.15.0" // connections of package net are in a struct
	cacheSince   = "v9.22.0" // commands may be answered by a cache; pipelines have connections of their own
	fromSince    = "v9.23.0" // generalProcessPipelineFrom
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// Options configures the set.
type Options struct {
	// NoText omits the text of commands. Their names are still reported.
	NoText bool
}

// New returns a set that reports the operations of one of the modules to a tracker. typeName returns the name of the type at an address.
func New(module string, t *join.Tracker, typeName func(addr uint64) (string, error), o Options) *probe.Set {
	d := newDecoder(module, t, typeName, o)
	set := &probe.Set{Name: module, Code: &code, Settings: settings(module), Decode: d.decode}
	for _, p := range probes(module) {
		if p.Modules == nil {
			p.Modules = versions(module, "", "")
		}
		p.Since = max(p.Since, oldest)
		p.NeedsG, p.Reads, p.Quiet = true, true, true
		set.Probes = append(set.Probes, p)
	}
	return set
}

// versions returns the versions of a module from one on, before another one.
func versions(module, since, until string) []probe.Module {
	if since == "" {
		since = map[string]string{V8: "v8.0.0", V9: "v9.0.0"}[module]
	}
	return []probe.Module{{Path: module, Since: since, Until: until}}
}

// probes returns the declarations without what they have in common.
func probes(module string) []probe.Declaration {
	const (
		begins   = "operations of Redis are not reported"
		ends     = "ends of operations of Redis are not reported"
		failures = "failures of operations of Redis are not reported"
	)
	client := func(name string) string { return module + ".(*baseClient)." + name }
	cluster := func(name string) string { return module + ".(*ClusterClient)." + name }
	atClient := []string{"client_opt", "client_pool", "opt_addr", "opt_db", "opt_retries", "cmd_args"}
	atNode := append([]string{"node_client"}, atClient...)
	command := probe.Declaration{Program: "command", Funcs: []string{client("process")}, Words: 5, Settings: atClient, Without: begins}
	batch := probe.Declaration{Program: "batch", Funcs: []string{client("generalProcessPipeline")}, Words: 6, Settings: atClient, Without: begins}
	release := probe.Declaration{Program: "release", Funcs: []string{client("releaseConn")}, Words: 6, Without: ends}
	list := []probe.Declaration{
		command, batch, release,
		{Program: "node_batch", Funcs: []string{cluster("processPipelineNode"), cluster("_processPipelineNode")}, Words: 6, Settings: atNode, Without: begins},
		{
			Program: "node_transaction", Funcs: []string{cluster("processTxPipelineNode"), cluster("_processTxPipelineNode")}, Words: 6,
			Settings: atNode, Without: begins,
		},
		{Program: "failed", Funcs: []string{module + ".shouldRetry"}, Words: 2, Without: failures},
		{
			Program: "batch_failed", Place: probe.AtCall, Callee: module + ".setCmdsErr", Without: failures,
			Funcs: []string{
				client("generalProcessPipeline"), client("generalProcessPipelineFrom"),
				cluster("processPipelineNode.func1"), cluster("processTxPipelineNode.func1"), cluster("processPipelineNode.func2"),
			},
		},
	}
	if module == V9 {
		for i := range 3 {
			until := cacheSince
			if list[i].Program == "batch" {
				until = fromSince
			}
			list[i].Modules = versions(V9, "", until)
		}
		command.Funcs, command.Modules = []string{client("processWithRetry")}, versions(V9, cacheSince, "")
		batch.Funcs, batch.Modules = []string{client("generalProcessPipelineFrom")}, versions(V9, fromSince, "")
		list = append(list, command, batch, probe.Declaration{Program: "release_to_pool", Funcs: []string{client("releaseConnToPool")}, Words: 8,
			Modules: versions(V9, cacheSince, ""), Without: ends})
	}
	return append(list, pauses(module)...)
}

// pauses returns the declarations of the probe where the pause before another attempt ends. The function defers a call of Stop of a Timer.
func pauses(module string) []probe.Declaration {
	var list []probe.Declaration
	for _, r := range []struct {
		since, until     int
		deferred, callee string
	}{
		{0, 22, "func1", "time.(*Timer).Stop"},
		{22, 0, "deferwrap1", "time.stopTimer"}, // the compiler inlines Stop
	} {
		d := probe.Declaration{
			Program: "slept", Since: r.since, Until: r.until, Funcs: []string{module + "/internal.Sleep"}, Place: probe.AtExit, Results: 2,
			Deferred: module + "/internal.Sleep." + r.deferred, Callee: r.callee,
			Without: "other attempts of failed operations of Redis are not reported",
		}
		if module == V8 {
			d.Modules = versions(V8, "v8.10.0", "")
		}
		list = append(list, d)
	}
	return list
}

// settings are the offsets of fields and other numbers of the C half.
func settings(module string) []probe.Setting {
	field := func(name, path string) probe.Setting { return sets.Field(name, module+"."+path) }
	return []probe.Setting{
		field("client_opt", "baseClient.opt"), field("client_pool", "baseClient.connPool"),
		field("opt_addr", "Options.Addr"), field("opt_db", "Options.DB"), field("opt_retries", "Options.MaxRetries"),
		field("cmd_args", "baseCmd.args"), field("node_client", "clusterNode.Client"),
		sets.Field("conn_net", module+"/internal/pool.Conn.netConn", module+"/internal/pool.Conn.netConnAtomic"),
		{Name: "conn_wrapped", Offsets: []probe.Offset{
			{Module: probe.Module{Path: V8}}, {Module: probe.Module{Path: V9, Until: wrappedSince}},
			{Module: probe.Module{Path: V9, Since: wrappedSince}, Offset: 1},
		}},
		sets.Field("fd_remote", "net.netFD.raddr"),
	}
}
