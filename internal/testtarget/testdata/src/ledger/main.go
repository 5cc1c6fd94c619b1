// Ledger uses package database/sql with drivers that have no database.
//
// It adds the commands
//
//	do HANDLE OPERATION STATEMENT...  performs an operation, then `ok` or `failed TEXT`. Each ? in the statement has an argument.
//	                 The handles are db, plain (a driver without optional methods), custom (a connector), conn, tx, stmt (of db),
//	                 txstmt (of tx). The operations are query, row, exec, prepare, begin, ping, commit, rollback, close
//	                 The statements huge, wide, wider, binary and empty stand for unusual texts
//	trouble KIND N   makes the next N operations of the driver fail: error, code, bad, wrapped, skip, sleep, panic; or the next N
//	                 connections: refused
//	timeout MS       bounds the next operation; 0: its context is canceled
//	pool N           the maximum number of connections of db
//	inside HANDLE OPERATION STATEMENT...  the same as do, in a request of HTTP
//	pooled G N       makes N requests of HTTP in each of G goroutines, whose operations other goroutines perform with their contexts
//	load G N         performs 4 N operations in each of G goroutines, then `load`
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"loupe.test/ledger/pq"
)

// dsn is in memory that the program has accessed: eBPF cannot read other memory.
var dsn = fmt.Sprintf("postgres://clerk:%s@db.example:5433/books?sslmode=disable", "secret")

func init() {
	sql.Register("pq", &pq.Driver{})
	sql.Register("plain", plainDriver{})
}

// plainDriver has connections without optional methods.
type plainDriver struct{}

func (plainDriver) Open(name string) (driver.Conn, error) {
	c, err := (&pq.Driver{}).Open(name)
	if err != nil {
		return nil, err
	}
	return driver.Conn(struct{ driver.Conn }{c}), nil
}

// connector opens connections without a name.
type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return (&pq.Driver{}).Open("") }
func (connector) Driver() driver.Driver                        { return &pq.Driver{} }

type ledger struct {
	dbs          map[string]*sql.DB
	conn         *sql.Conn
	tx           *sql.Tx
	stmt, txstmt *sql.Stmt
	timeout      time.Duration // of the next operation; negative: none
	held         []context.CancelFunc
}

func open(name, dsn string) *sql.DB {
	db, err := sql.Open(name, dsn)
	if err != nil {
		panic(err)
	}
	return db
}

func main() {
	l := &ledger{timeout: -1, dbs: map[string]*sql.DB{"db": open("pq", dsn), "plain": open("plain", "secret"), "custom": sql.OpenDB(connector{})}}
	p := newPool(l)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pooled" {
			p.serve(w, r)
			return
		}
		fmt.Fprint(w, l.do(strings.Fields(r.URL.Query().Get("do"))))
	}))
	p.url = server.URL
	serve(false, map[string]command{
		"do": l.do,
		"trouble": func(args []string) string {
			pq.Trouble(args[0], number(args[1]))
			return "ok"
		},
		"timeout": func(args []string) string {
			l.timeout = time.Duration(number(args[0])) * time.Millisecond
			return "ok"
		},
		"pool": func(args []string) string {
			l.dbs["db"].SetMaxOpenConns(number(args[0]))
			return "ok"
		},
		"inside": func(args []string) string {
			response, err := http.Get(server.URL + "?do=" + strings.Join(args, "+"))
			if err != nil {
				return "failed " + err.Error()
			}
			response.Body.Close()
			return "ok"
		},
		"pooled": p.requests,
		"load":   l.load,
	})
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func (l *ledger) context() context.Context {
	if l.timeout < 0 {
		return context.Background()
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	if l.timeout == 0 {
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
	}
	l.held = append(l.held, cancel)
	l.timeout = -1
	return ctx
}

// do performs an operation. A panic of the driver is an error.
func (l *ledger) do(args []string) (answer string) {
	defer func() {
		if r := recover(); r != nil {
			answer = fmt.Sprint("failed ", r)
		}
	}()
	handle, operation, text := args[0], args[1], statement(strings.Join(args[2:], " "))
	var values []interface{}
	for i := 0; i < strings.Count(text, "?"); i++ {
		values = append(values, i)
	}
	if err := l.perform(l.context(), handle, operation, text, values); err != nil {
		return "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "ok"
}

func statement(text string) string {
	switch text {
	case "huge":
		return "SELECT * FROM huge WHERE a = '" + strings.Repeat("x", 1<<20) + "'"
	case "wide":
		return "SELECT " + strings.Repeat("a, ", 500) + "b FROM wide"
	case "wider":
		return "SELECT " + strings.Repeat("a, ", 1000) + "b FROM wider WHERE a = '" + strings.Repeat("x", 2000) + "'"
	case "binary":
		return "SELECT\x00\xff\xfe FROM \x01\x80"
	case "empty":
		return ""
	}
	return text
}

// handle is what DB, Conn, Tx have in common.
type handle interface {
	QueryContext(context.Context, string, ...interface{}) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...interface{}) *sql.Row
	ExecContext(context.Context, string, ...interface{}) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

// prepared is a Stmt as a handle.
type prepared struct{ *sql.Stmt }

func (p prepared) QueryContext(ctx context.Context, _ string, values ...interface{}) (*sql.Rows, error) {
	return p.Stmt.QueryContext(ctx, values...)
}

func (p prepared) QueryRowContext(ctx context.Context, _ string, values ...interface{}) *sql.Row {
	return p.Stmt.QueryRowContext(ctx, values...)
}

func (p prepared) ExecContext(ctx context.Context, _ string, values ...interface{}) (sql.Result, error) {
	return p.Stmt.ExecContext(ctx, values...)
}

func (p prepared) PrepareContext(context.Context, string) (*sql.Stmt, error) { panic("prepared twice") }

func (l *ledger) handle(name string) handle {
	switch name {
	case "conn":
		return l.conn
	case "tx":
		return l.tx
	case "stmt":
		return prepared{l.stmt}
	case "txstmt":
		return prepared{l.txstmt}
	}
	return l.dbs[name]
}

func (l *ledger) perform(ctx context.Context, name, operation, text string, values []interface{}) (err error) {
	switch operation {
	case "query":
		rows, err := l.handle(name).QueryContext(ctx, text, values...)
		if err != nil {
			return err
		}
		for rows.Next() {
		}
		return rows.Close()
	case "row":
		n := 0
		return l.handle(name).QueryRowContext(ctx, text, values...).Scan(&n)
	case "exec":
		_, err = l.handle(name).ExecContext(ctx, text, values...)
	case "prepare":
		var s *sql.Stmt
		if s, err = l.handle(name).PrepareContext(ctx, text); name == "tx" {
			l.txstmt = s
		} else if err == nil {
			l.stmt = s
		}
	default:
		return l.control(ctx, name, operation)
	}
	return err
}

// control performs an operation without a statement.
func (l *ledger) control(ctx context.Context, name, operation string) (err error) {
	switch name + " " + operation {
	case "db begin", "plain begin", "custom begin":
		l.tx, err = l.dbs[name].BeginTx(ctx, nil)
	case "conn begin":
		l.tx, err = l.conn.BeginTx(ctx, nil)
	case "db ping", "plain ping", "custom ping":
		err = l.dbs[name].PingContext(ctx)
	case "conn ping":
		err = l.conn.PingContext(ctx)
	case "db conn":
		l.conn, err = l.dbs[name].Conn(ctx)
	case "conn close":
		err = l.conn.Close()
	case "stmt close":
		err = l.stmt.Close()
	case "tx commit":
		err = l.tx.Commit()
	case "tx rollback":
		err = l.tx.Rollback()
	default:
		panic("unknown operation " + name + " " + operation)
	}
	return err
}

// load performs many operations at once.
func (l *ledger) load(args []string) string {
	var all sync.WaitGroup
	for g := 0; g < number(args[0]); g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < number(args[1]); i++ {
				tx, err := l.dbs["db"].Begin()
				if err != nil {
					panic(err)
				}
				rows, err := tx.Query("SELECT n FROM loads WHERE n = ?", i)
				if err != nil {
					panic(err)
				}
				rows.Close()
				if _, err := l.dbs["db"].Exec("UPDATE loads SET n = 1"); err != nil {
					panic(err)
				}
				if err := tx.Commit(); err != nil {
					panic(err)
				}
			}
		}()
	}
	all.Wait()
	return "load"
}
