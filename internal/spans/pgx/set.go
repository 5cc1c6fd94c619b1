// Package pgx is a set of probes for module github.com/jackc/pgx/v5: the operations that a program performs on a PostgreSQL server by a
// pgx.Conn, a pgxpool.Pool, or their transactions.
//
// An operation is an Exec, a Query or QueryRow, a SendBatch, a CopyFrom, or a Prepare that the server performs. The begin, commit and
// rollback of a transaction is an Exec of such a statement, also in a nested transaction. What pgx does for an operation by itself is
// part of it: it prepares statements for its cache, and asks for the columns of the table of a copy.
//
// The span of an operation begins when its method is called. So the time of an operation of a pool contains the wait for a connection,
// and there is a span if it gets none. It does not contain that of a connection which the program acquires itself.
//
// The span of a query ends when its rows are closed: by Close, by Next or Scan after the last row or an error, or by Scan of a row that
// QueryRow has returned. The server may report an error until then. So the time of a query contains that in which the program reads the
// rows, but operations that the program performs meanwhile are not part of it. The span of a batch ends when its results are closed. All
// others end when the method returns.
//
// The code of an error is the SQLSTATE that the server has reported. The text of a statement without parameters is reported without its
// literals. If the program executes a statement by the name that it was prepared with, this is the text of the statement, unless it
// was prepared before it could be observed. The name of a batch has what all of its statements have in common, if these are few.
//
// The summary of a statement, which is the name of the span, is that of its first KB, or of its first 4 KB if it is a constant.
//
// If package database/sql performs the operation, by package stdlib of the module, there is only the span of set sqldb.
//
// Not reported are Ping since v5.4.0, which is an Exec before, the values and columns of a copy, and what a program does by package pgconn
// directly. The address of the server is omitted if the connection string lists several. If a query consists of several statements,
// which requires the simple protocol, errors of those after the first one are not reported.
//
// On amd64, engine inline finds no place for some ends in some builds, and warns of it: of batches before v5.7.6, of Prepare, and of
// operations that get no connection of a pool. Such a span ends with the next operation of its connection, or of a pool by its
// goroutine, or with the span around it, and is marked as unobserved. What the goroutine does meanwhile is within it.
//
// The central function is [New].
package pgx

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package pgx -out code.go -code code

// Library is the path of the instrumented module.
const Library = "github.com/jackc/pgx/v5"

const (
	oldest    = 19       // the minor version of the oldest Go release that is supported
	oldestMod = "v5.0.0" // the oldest version of the module that is supported
	pgconn    = Library + "/pgconn"
	pgxpool   = Library + "/pgxpool"
)

// invalidatesSince is the first version in which what closes the results of a batch calls invalidateCachesOnBatchResultsError.
const invalidatesSince = "v5.7.6"

// maxServers is the number of connections whose server is described a few times. That of others is described with each operation.
const maxServers = 1024

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// Options configures the set.
type Options struct {
	// TypeName returns the name of the type at an address.
	TypeName func(addr uint64) (string, error)

	// Constant returns memory that the program cannot write.
	Constant func(addr uint64, size int) ([]byte, error)

	// NoText omits the text of statements. Their summary, which has the operations and the names of tables, is still reported.
	NoText bool

	// NoParsing omits what is found in the text of statements: the operations and the names of tables. Spans of statements then have the
	// name of the database system.
	NoParsing bool
}

// New returns a set that reports operations to a tracker.
func New(t *join.Tracker, o Options) *probe.Set {
	d := newDecoder(t, o)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode, Tables: []probe.Table{{Name: "servers", Values: 1, Keys: maxServers}}}
	for _, p := range probes() {
		if p.Modules == nil {
			p.Modules = []probe.Module{{Path: Library, Since: oldestMod}}
		}
		p.Since, p.NeedsG, p.Reads, p.Quiet = oldest, true, true, true
		set.Probes = append(set.Probes, p)
	}
	return set
}

// conn returns the name of a method of a connection, pool that of a pool.
func conn(name string) string { return Library + ".(*Conn)." + name }
func pool(name string) string { return pgxpool + ".(*Pool)." + name }

// probes returns the declarations without what they have in common.
func probes() []probe.Declaration {
	const (
		begins = "operations of pgx are not reported: "
		ends   = "ends of operations of pgx are not reported: "
		waits  = "the time in which operations of pgx wait for a connection of a pool is not reported: "
	)
	server := []string{"conn_pgconn", "pgconn_config", "pgconn_status", "config_host", "config_port", "config_database", "config_fallbacks", "fallback_host", "fallback_port"}
	pooled := append([]string{"pool_config", "pool_conn_config"}, server...)
	batch := []string{"batch_queries", "queued_sql", "queued_arguments"}
	entry := func(program, function string, words int, settings ...string) probe.Declaration {
		return probe.Declaration{Program: program, Funcs: []string{function}, Words: words, Settings: settings, Without: begins + function}
	}
	waiting := func(program, name string, words int, more ...string) probe.Declaration {
		d := entry(program, pool(name), words, append(more, pooled...)...)
		d.Without = waits + name
		return d
	}
	after := func(program, function, callee string, results int) probe.Declaration {
		return probe.Declaration{Program: program, Funcs: []string{function}, Place: probe.AfterCall, Callee: callee, Results: results,
			Settings: []string{"error_code"}, Without: ends + function}
	}
	results := func(program, typ string) probe.Declaration {
		closes := Library + ".(*" + typ + ").Close"
		return probe.Declaration{Program: program, Modules: []probe.Module{{Path: Library, Since: oldestMod, Until: invalidatesSince}},
			Funcs: []string{closes}, Place: probe.AtExit, Results: 2, Deferred: closes + ".func1", Settings: []string{"error_code"}, Without: ends + closes}
	}
	end := probe.Declaration{Program: "results_end", Modules: []probe.Module{{Path: Library, Since: invalidatesSince}}, Place: probe.AtCall,
		Funcs:  []string{Library + ".(*batchResults).Close.func1", Library + ".(*pipelineBatchResults).Close.func1"},
		Callee: Library + ".invalidateCachesOnBatchResultsError", Settings: []string{"error_code"}, Without: ends + "batches"}
	prepare := after("prepare", conn("Prepare"), pgconn+".(*PgConn).Prepare", 0)
	prepare.Place, prepare.Settings, prepare.Without = probe.AtCall, server, begins+conn("Prepare")
	failed := after("pool_failed", "", pool("Acquire"), 3)
	failed.Funcs = []string{pool("Exec"), pool("Query"), pool("QueryRow"), pool("SendBatch"), pool("BeginTx"), pool("CopyFrom")}
	failed.Without = "operations of pgx that get no connection of a pool are not reported"
	return []probe.Declaration{
		entry("exec", conn("Exec"), 7, server...), after("exec_end", conn("Exec"), conn("exec"), 4),
		entry("query", conn("Query"), 7, server...),
		entry("rows_close", Library+".(*baseRows).Close", 1, "rows_reader", "rows_err", "rows_closed", "rows_conn", "error_code", "conn_pgconn"),
		after("reader_closed", Library+".(*baseRows).Close", pgconn+".(*ResultReader).Close", 4),
		entry("batch", conn("SendBatch"), 4, append(batch, server...)...),
		entry("batch_close", Library+".(*batchResults).Close", 1, "results_conn", "results_ended", "conn_pgconn"), results("batch_end", "batchResults"),
		entry("pipeline_close", Library+".(*pipelineBatchResults).Close", 1, "pipeline_conn", "pipeline_ended", "conn_pgconn"),
		results("pipeline_end", "pipelineBatchResults"), end,
		entry("copy", conn("CopyFrom"), 5, server...), after("copy_end", Library+".(*copyFrom).run", pgconn+".(*PgConn).CopyFrom", 4),
		prepare, after("prepare_end", conn("Prepare"), pgconn+".(*PgConn).Prepare", 3),
		waiting("pool_exec", "Exec", 7), waiting("pool_query", "Query", 7), waiting("pool_query_row", "QueryRow", 7), waiting("pool_batch", "SendBatch", 4, batch...),
		waiting("pool_begin", "BeginTx", 1), waiting("pool_copy", "CopyFrom", 5), failed,
	}
}

// settings are the offsets of fields.
func settings() []probe.Setting {
	field := sets.Field
	return []probe.Setting{
		field("conn_pgconn", Library+".Conn.pgConn"), field("pgconn_config", pgconn+".PgConn.config"), field("pgconn_status", pgconn+".PgConn.status"),
		field("config_host", pgconn+".Config.Host"), field("config_port", pgconn+".Config.Port"), field("config_database", pgconn+".Config.Database"),
		field("config_fallbacks", pgconn+".Config.Fallbacks"),
		field("fallback_host", pgconn+".FallbackConfig.Host"), field("fallback_port", pgconn+".FallbackConfig.Port"),
		field("error_code", pgconn+".PgError.Code"),
		field("rows_reader", Library+".baseRows.resultReader"), field("rows_err", Library+".baseRows.err"),
		field("rows_closed", Library+".baseRows.closed"), field("rows_conn", Library+".baseRows.conn"),
		field("batch_queries", Library+".Batch.queuedQueries", Library+".Batch.QueuedQueries"),
		field("queued_sql", Library+".QueuedQuery.query", Library+".QueuedQuery.SQL"),
		field("queued_arguments", Library+".QueuedQuery.arguments", Library+".QueuedQuery.Arguments"),
		field("results_conn", Library+".batchResults.conn"), field("results_ended", Library+".batchResults.endTraced"),
		field("pipeline_conn", Library+".pipelineBatchResults.conn"), field("pipeline_ended", Library+".pipelineBatchResults.endTraced"),
		field("pool_config", pgxpool+".Pool.config"), field("pool_conn_config", pgxpool+".Config.ConnConfig"),
	}
}
