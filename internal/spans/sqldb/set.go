// Package sqldb is a set of probes for package database/sql: the operations that a program performs on databases, whatever the driver.
//
// An operation is a query, an execution, a preparation, a begin, a commit or a rollback of a transaction, or a ping. It begins where
// the program calls the method of DB or Stmt, so its time contains the wait for a connection of the pool and all attempts if a
// connection turns out to be bad. Operations on a Tx or a Conn begin where the method has the connection. A query ends when its rows
// can be read: the time in which the program reads them is not part of it.
//
// These are not reported: the statements that (*Tx).Stmt prepares on the connection of the transaction, operations that fail because
// their transaction or connection has ended, and what a program does with a driver directly.
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
	oldest = 19 // the minor version of the oldest Go release that is supported
	retry  = 20 // of the first one with (*DB).retry
)

// maxDatabases is the number of databases whose description is sent once. That of others is sent with each operation.
const maxDatabases = 256

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// Options configures the set.
type Options struct {
	// NoText omits the text of statements. Their summary, which has the operations and the names of tables, is still reported.
	NoText bool
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
	old.Until, old.Funcs = retry, methods("DB", "QueryContext", "ExecContext", "PrepareContext", "BeginTx", "PingContext")
	old.Funcs = append(old.Funcs, methods("Stmt", "QueryContext", "ExecContext")...)
	current.Since, current.Funcs = retry, methods("DB", "retry")
	return []probe.Declaration{
		atEntry("db_query", "DB", "QueryContext", 7), atEntry("db_exec", "DB", "ExecContext", 7), atEntry("db_prepare", "DB", "PrepareContext", 5),
		atEntry("db_begin", "DB", "BeginTx", 1), atEntry("db_ping", "DB", "PingContext", 1),
		withConn("conn_query", "queryDC", "QueryContext"), withConn("conn_exec", "execDC", "ExecContext"),
		withConn("conn_prepare", "prepareDC", "PrepareContext"), withConn("conn_begin", "beginDC", "BeginTx"), withConn("conn_ping", "pingDC", "PingContext"),
		atEntry("stmt_query", "Stmt", "QueryContext", 1, "stmt_db", "stmt_query"), atEntry("stmt_exec", "Stmt", "ExecContext", 1, "stmt_db", "stmt_query"),
		{
			Program: "tx_commit", Funcs: methods("Tx", "Commit"), Place: probe.AtCall, Callee: "database/sql.withLock",
			Settings: []string{"db_connector", "conn_db"}, Without: "commits of transactions are not reported",
		}, {
			Program: "tx_rollback", Funcs: methods("Tx", "rollback"), Place: probe.AtCall, Callee: "database/sql.withLock",
			Settings: []string{"db_connector", "conn_db"}, Without: "rollbacks of transactions are not reported",
		},
		{Program: "rows_open", Funcs: methods("Rows", "initContextClose"), Words: 1, Without: ends},
		{Program: "tx_open", Funcs: methods("DB", "beginDC"), Place: probe.AtCall, Callee: "runtime.newproc", Without: ends},
		{Program: "db_release", Funcs: methods("DB", "putConn"), Words: 5, Without: ends},
		{
			Program: "tx_release", Funcs: methods("Tx", "closemuRUnlockRelease-fm"), Place: probe.AtCall,
			Callee: method("Tx", "closemuRUnlockRelease"), Without: ends,
		}, {
			Program: "tx_release_small", Since: 27, Funcs: methods("Tx", "closemuRUnlockRelease-fm"), Words: 2,
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
	pgx := func(p string) string { return "github.com/jackc/pgx/" + p + "stdlib.driverConnector.name" }
	mysql := func(name string, offset uint64) probe.Setting {
		s := field(name, "github.com/go-sql-driver/mysql."+map[string]string{"mysql_config": "connector.cfg", "mysql_addr": "Config.Addr", "mysql_database": "Config.DBName"}[name])
		s.Offsets = []probe.Offset{{Module: probe.Module{Path: "github.com/go-sql-driver/mysql"}, Offset: offset}}
		return s
	}
	name := field("pgx_name", pgx("v5/"), pgx("v4/"), pgx(""))
	for _, module := range []string{"v5", "v4"} {
		name.Offsets = append(name.Offsets, probe.Offset{Module: probe.Module{Path: "github.com/jackc/pgx/" + module}, Offset: 8})
	}
	return []probe.Setting{
		field("db_connector", "database/sql.DB.connector"), field("conn_db", "database/sql.driverConn.db"),
		field("stmt_db", "database/sql.Stmt.db"), field("stmt_query", "database/sql.Stmt.query"),
		field("dsn_text", "database/sql.dsnConnector.dsn"), field("dsn_driver", "database/sql.dsnConnector.driver"),
		name, mysql("mysql_config", 0), mysql("mysql_addr", 48), mysql("mysql_database", 64),
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

// awaitDone returns the address and the size of (*Tx).awaitDone, or 0.
func awaitDone(p probe.Program) (start, size uint64) {
	f, ok := p.Binary().LookupFunc(method("Tx", "awaitDone"))
	if !ok {
		return 0, 0
	}
	return f.Entry + p.LoadBias(), f.End - f.Entry
}
