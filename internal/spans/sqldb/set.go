// Package sqldb is a set of probes for package database/sql: the operations that a program performs on databases, whatever the driver.
//
// An operation is a query, an execution, a preparation, a begin, a commit or a rollback of a transaction, or a ping. It begins where
// the program calls the method of DB or Stmt, so its time contains the wait for a connection of the pool and all attempts if a
// connection turns out to be bad. Operations on a Tx or a Conn begin where the method has the connection. A query ends when its rows
// can be read: the time in which the program reads them is not part of it.
//
// The summary of a statement, which is the name of the span, is that of its first 4 KB: the columns of a query can be long. At most 1 KB of
// the text is reported.
//
// An operation makes up to three attempts. If the last one cannot get a connection, nothing reports its end: its span ends with the
// next operation of the goroutine or with the span around it, and is marked as unobserved. The error of a rollback is not reported if
// the package rolls back because the context of the transaction has ended. On amd64 engine inline reports the errors of statements in
// transactions without their types since Go 1.27.
//
// Not reported are the statements that (*Tx).Stmt prepares on the connection of the transaction, operations that fail because their
// transaction or connection has ended, and direct calls of a driver.
//
// The central function is [New].
package sqldb

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package sqldb -out code.go -code code

// Library is the name of the instrumented package.
const Library = "database/sql"

const (
	oldest   = 19 // the minor version of the oldest Go release that is supported
	hasRetry = 20 // that of the first release with (*DB).retry
	small    = 27 // that of the first release that inlines (*Tx).closemuRUnlockRelease
)

// maxDatabases is the number of databases that are described a few times. Others are described with each operation.
const maxDatabases = 256

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// Options configures the set.
type Options struct {
	// NoText omits the text of statements. Their summary, which has the operations and the names of tables, is still reported.
	NoText bool

	// NoParsing omits what is found in the text of statements: the operations and the names of tables. Spans of statements then have the
	// name of the database system.
	NoParsing bool
}

// New returns a set that reports operations to a tracker. typeName returns the name of the type at an address.
func New(t *join.Tracker, typeName func(addr uint64) (string, error), o Options) *probe.Set {
	d := newDecoder(t, typeName, o)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode, Tables: []probe.Table{{Name: "databases", Values: 1, Keys: maxDatabases}}}
	for _, p := range probes() {
		if p.Since == 0 {
			p.Since = oldest
		}
		p.NeedsG, p.Reads, p.Quiet = true, true, true
		set.Probes = append(set.Probes, p)
	}
	return set
}

// probes returns the declarations without what they have in common.
func probes() []probe.Declaration {
	const (
		ends  = "ends of operations of database/sql are not reported"
		other = "other attempts of failed operations of database/sql are not reported"
	)
	errorsIs := probe.Declaration{Program: "retry", Place: probe.AtCall, Callee: "errors.Is", Without: other}
	old, current := errorsIs, errorsIs
	old.Until, old.Funcs = hasRetry, methods("DB", "QueryContext", "ExecContext", "PrepareContext", "BeginTx", "PingContext")
	old.Funcs = append(old.Funcs, methods("Stmt", "QueryContext", "ExecContext")...)
	current.Since, current.Funcs = hasRetry, methods("DB", "retry")
	return []probe.Declaration{
		atEntry("db_query", "DB", "QueryContext", 7), atEntry("db_exec", "DB", "ExecContext", 7), atEntry("db_prepare", "DB", "PrepareContext", 5),
		atEntry("db_begin", "DB", "BeginTx", 3), atEntry("db_ping", "DB", "PingContext", 3),
		withConn("conn_query", "queryDC", "QueryContext"), withConn("conn_exec", "execDC", "ExecContext"),
		withConn("conn_prepare", "prepareDC", "PrepareContext"), withConn("conn_begin", "beginDC", "BeginTx"), withConn("conn_ping", "pingDC", "PingContext"),
		atEntry("stmt_query", "Stmt", "QueryContext", 3, "stmt_db", "stmt_query"), atEntry("stmt_exec", "Stmt", "ExecContext", 3, "stmt_db", "stmt_query"),
		{
			Program: "tx_commit", Funcs: methods("Tx", "Commit"), Place: probe.AtCall, Callee: "database/sql.withLock",
			Settings: []string{"db_connector", "conn_db", "tx_dc", "tx_ctx"}, Without: "commits of transactions are not reported",
		}, {
			Program: "tx_rollback", Funcs: methods("Tx", "rollback"), Place: probe.AtCall, Callee: "database/sql.withLock",
			Settings: []string{"db_connector", "conn_db", "tx_dc", "tx_ctx"}, Without: "rollbacks of transactions are not reported",
		},
		{Program: "rows_open", Funcs: methods("Rows", "initContextClose"), Words: 1, Without: ends},
		{Program: "tx_open", Funcs: methods("DB", "beginDC"), Place: probe.AtCall, Callee: "runtime.newproc", Without: ends},
		{Program: "db_release", Funcs: methods("DB", "putConn"), Words: 5, Without: ends},
		{
			Program: "tx_release", Funcs: methods("Tx", "closemuRUnlockRelease-fm"), Place: probe.AtCall,
			Callee: method("Tx", "closemuRUnlockRelease"), Without: ends,
		}, {
			Program: "tx_release_small", Since: small, Funcs: methods("Tx", "closemuRUnlockRelease-fm"), Words: 2,
			Passes: method("closingMutex", "RUnlock"), Without: ends,
		}, {
			Program: "conn_release", Funcs: methods("Conn", "closemuRUnlockCondReleaseConn-fm"), Place: probe.AtCall,
			Callee: method("Conn", "closemuRUnlockCondReleaseConn"), Without: ends,
		},
		old, current,
	}
}

// method returns the name of a method of a pointer to a type.
func method(typ, name string) string { return "database/sql.(*" + typ + ")." + name }

func methods(typ string, names ...string) []string {
	for i, name := range names {
		names[i] = method(typ, name)
	}
	return names
}

// atEntry returns a declaration of a probe where an operation begins: a method is called.
func atEntry(program, typ, name string, words int, settings ...string) probe.Declaration {
	return probe.Declaration{Program: program, Funcs: methods(typ, name), Words: words, Settings: append(settings, "db_connector"),
		Without: "operations of database/sql are not reported: " + method(typ, name)}
}

// withConn returns a declaration of a probe where an operation of a transaction or a connection begins: it has its connection.
func withConn(program, callee, name string) probe.Declaration {
	return probe.Declaration{Program: program, Funcs: append(methods("Tx", name), methods("Conn", name)...), Place: probe.AtCall, Callee: method("DB", callee),
		Settings: []string{"db_connector"}, Without: "operations of transactions and connections are not reported: " + name}
}

// settings are the offsets of fields and other numbers of the C half.
func settings() []probe.Setting {
	field := sets.Field
	const pgx, mysql = "github.com/jackc/pgx/", "github.com/go-sql-driver/mysql"
	return []probe.Setting{
		field("db_connector", "database/sql.DB.connector"), field("conn_db", "database/sql.driverConn.db"),
		field("stmt_db", "database/sql.Stmt.db"), field("stmt_query", "database/sql.Stmt.query"),
		field("tx_dc", "database/sql.Tx.dc"), field("tx_ctx", "database/sql.Tx.ctx"),
		field("dsn_text", "database/sql.dsnConnector.dsn"), field("dsn_driver", "database/sql.dsnConnector.driver"),
		at(field("pgx_name", pgx+"v5/stdlib.driverConnector.name", pgx+"v4/stdlib.driverConnector.name"), 8, pgx+"v5", pgx+"v4"),
		// A stdlib.connector begins with a pgx.ConnConfig, and that with a pgconn.Config.
		at(field("pgx_host", pgx+"v5/pgconn.Config.Host"), 0, pgx+"v5"), at(field("pgx_port", pgx+"v5/pgconn.Config.Port"), 16, pgx+"v5"),
		at(field("pgx_database", pgx+"v5/pgconn.Config.Database"), 24, pgx+"v5"),
		at(field("mysql_config", mysql+".connector.cfg"), 0, mysql), at(field("mysql_addr", mysql+".Config.Addr"), 48, mysql),
		at(field("mysql_database", mysql+".Config.DBName"), 64, mysql),
		{Name: "await_start", Value: func(p probe.Program) (uint64, error) {
			start, _ := awaitDone(p)
			return start, nil
		}},
		{Name: "await_size", Value: func(p probe.Program) (uint64, error) {
			_, size := awaitDone(p)
			return size, nil
		}},
	}
}

// at sets the offset of a field in all versions of modules, for targets without DWARF.
func at(s probe.Setting, offset uint64, modules ...string) probe.Setting {
	for _, m := range modules {
		s.Offsets = append(s.Offsets, probe.Offset{Module: probe.Module{Path: m}, Offset: offset})
	}
	return s
}

// awaitDone returns the address and the size of (*Tx).awaitDone, or 0.
func awaitDone(p probe.Program) (start, size uint64) {
	f, ok := p.Binary().LookupFunc(method("Tx", "awaitDone"))
	if !ok {
		return 0, 0
	}
	return f.Entry + p.LoadBias(), f.End - f.Entry
}
