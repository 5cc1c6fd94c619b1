// Clerk uses module github.com/jackc/pgx/v5 with a PostgreSQL server. It builds with each version that a file such as pgx-5.0.mod names.
//
// It adds the commands
//
//	connect DSN      connects with each of the handles conn (a pgx.Conn), pool (a pgxpool.Pool), sql (database/sql with pgx) and pq
//	                 (database/sql with lib/pq)
//	do HANDLE OPERATION STATEMENT...  performs an operation, then `ok` or `failed TEXT`. Each parameter in the statement has a number
//	                 as its argument. The handles are also tx (of conn), ptx (of pool), sqltx (of sql) and nested (of tx).
//	                 The operations are
//	                     query, row   reads all rows, or the first one, as text
//	                     early        reads one of several rows
//	                     hold         leaves the rows open
//	                     exec, begin, commit, rollback
//	                     simple       exec by the simple protocol, with an option instead of an argument
//	                     prepare NAME STATEMENT
//	                     named NAME N executes a prepared statement by its name
//	                     batch STATEMENT; STATEMENT...
//	                     copy TABLE N copies N rows of two numbers
//	                     panic        exec with an argument that panics, which is recovered
//	release          closes the rows of hold, on another goroutine
//	broken HANDLE OPERATION STATEMENT...  the same as do with a connection that the server closes first
//	refused          queries a pool whose server does not exist
//	exhaust          queries a pool whose connections are in use, with a deadline
//	timeout MS       bounds the next operation; 0: its context is canceled
//	inside HANDLE OPERATION STATEMENT...  the same as do, in a request of HTTP
//	pooled G N       the same as load, but other goroutines do the work of the requests
//	load G N         makes N requests of HTTP in each of G goroutines. A request executes, queries, and sends a batch in a transaction
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
)

// handle is what pgx.Conn, pgxpool.Pool and pgx.Tx have in common.
type handle interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
	Begin(ctx context.Context) (pgx.Tx, error)
}

type clerk struct {
	dsn     string
	handles map[string]handle
	dbs     map[string]*sql.DB
	sqltx   *sql.Tx
	rows    pgx.Rows
	timeout time.Duration // of the next operation; negative: none
	held    []context.CancelFunc
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	c := &clerk{timeout: -1, handles: map[string]handle{}, dbs: map[string]*sql.DB{}}
	pool := elsewhere(8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pooled" {
			pool(func() { fmt.Fprint(w, c.work(r.Context())) })
			return
		}
		if r.URL.Path == "/load" {
			fmt.Fprint(w, c.work(r.Context()))
			return
		}
		fmt.Fprint(w, c.do(strings.Split(r.URL.Query().Get("do"), " ")))
	}))
	serve(false, map[string]command{
		"connect": c.connect,
		"do":      c.do,
		"release": c.release,
		"broken":  c.broken,
		"refused": func([]string) string { return c.refused() },
		"exhaust": func([]string) string { return c.exhaust() },
		"timeout": func(args []string) string {
			c.timeout = time.Duration(number(args[0])) * time.Millisecond
			return "ok"
		},
		"inside": func(args []string) string {
			return get(server.URL + "?do=" + url.QueryEscape(strings.Join(args, " ")))
		},
		"pooled": func(args []string) string { return load(server.URL+"/pooled", number(args[0]), number(args[1])) },
		"load":   func(args []string) string { return load(server.URL+"/load", number(args[0]), number(args[1])) },
	})
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func get(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return "failed " + err.Error()
	}
	defer response.Body.Close()
	var answer [1 << 12]byte
	n, _ := response.Body.Read(answer[:])
	return string(answer[:n])
}

func (c *clerk) connect(args []string) string {
	ctx := context.Background()
	c.dsn = strings.Join(args, " ")
	conn, err := pgx.Connect(ctx, c.dsn)
	check(err)
	pool, err := pgxpool.New(ctx, c.dsn)
	check(err)
	check(pool.Ping(ctx))
	c.handles["conn"], c.handles["pool"] = conn, pool
	for name, registered := range map[string]string{"sql": "pgx", "pq": "postgres"} {
		c.dbs[name], err = sql.Open(registered, c.dsn)
		check(err)
		check(c.dbs[name].Ping())
	}
	return "ok"
}

func (c *clerk) context() context.Context {
	if c.timeout < 0 {
		return context.Background()
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	if c.timeout == 0 {
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
	}
	c.held = append(c.held, cancel)
	c.timeout = -1
	return ctx
}

// trouble is an argument that panics.
type trouble struct{}

func (trouble) Value() (driver.Value, error) { panic("trouble") }

func (c *clerk) do(args []string) (result string) {
	defer func() {
		if r := recover(); r == "trouble" {
			result = "failed trouble"
		} else if r != nil {
			panic(r)
		}
	}()
	name, operation, text := args[0], args[1], strings.Join(args[2:], " ")
	var err error
	if db := c.dbs[name]; db != nil || name == "sqltx" {
		err = c.standard(name, operation, text)
	} else {
		err = c.perform(c.context(), name, operation, text)
	}
	return answer(err)
}

func answer(err error) string {
	if err != nil {
		return "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "ok"
}

// arguments returns a number for each parameter of a statement.
func arguments(text string) (values []any) {
	for strings.Contains(text, "$"+strconv.Itoa(len(values)+1)) {
		values = append(values, len(values)+1)
	}
	return values
}

func (c *clerk) perform(ctx context.Context, name, operation, text string) error {
	h := c.handles[name]
	switch operation {
	case "exec":
		_, err := h.Exec(ctx, text, arguments(text)...)
		return err
	case "panic":
		_, err := h.Exec(ctx, text, trouble{})
		return err
	case "simple":
		_, err := h.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
		return err
	case "named":
		words := strings.Fields(text)
		_, err := h.Exec(ctx, words[0], number(words[1]))
		return err
	case "row":
		var value any
		return h.QueryRow(ctx, text, arguments(text)...).Scan(&value)
	case "query", "early", "hold":
		rows, err := h.Query(ctx, text, arguments(text)...)
		if operation == "hold" {
			c.rows = rows
			return err
		}
		for rows.Next() && operation == "query" {
		}
		rows.Close()
		rows.Close()
		return rows.Err()
	case "batch":
		return sendBatch(ctx, h, strings.Split(text, "; "))
	case "copy":
		words := strings.Fields(text)
		n := number(words[1])
		_, err := h.CopyFrom(ctx, strings.Split(words[0], "."), []string{"a", "b"}, pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{i, i}, nil
		}))
		return err
	case "prepare":
		words := strings.Fields(text)
		_, err := h.(interface {
			Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error)
		}).Prepare(ctx, words[0], strings.Join(words[1:], " "))
		return err
	case "begin":
		tx, err := h.Begin(ctx)
		c.handles[map[string]string{"conn": "tx", "pool": "ptx", "tx": "nested"}[name]] = tx
		return err
	case "commit":
		return h.(pgx.Tx).Commit(ctx)
	case "rollback":
		return h.(pgx.Tx).Rollback(ctx)
	}
	panic(operation)
}

func sendBatch(ctx context.Context, h handle, texts []string) error {
	b := &pgx.Batch{}
	for _, text := range texts {
		b.Queue(text, arguments(text)...)
	}
	results := h.SendBatch(ctx, b)
	if len(texts) > 1 { // rows of a batch
		rows, _ := results.Query()
		rows.Close()
	}
	err := results.Close()
	results.Close()
	return err
}

// standard performs an operation with package database/sql.
func (c *clerk) standard(name, operation, text string) (err error) {
	var h interface {
		Exec(string, ...any) (sql.Result, error)
		Query(string, ...any) (*sql.Rows, error)
	} = c.sqltx
	if db := c.dbs[name]; db != nil {
		h = db
	}
	switch operation {
	case "exec":
		_, err = h.Exec(text, arguments(text)...)
	case "query":
		var rows *sql.Rows
		if rows, err = h.Query(text, arguments(text)...); err == nil {
			for rows.Next() {
			}
			if err = rows.Err(); err == nil {
				err = rows.Close()
			}
		}
	case "begin":
		c.sqltx, err = c.dbs[name].Begin()
	case "commit":
		err = c.sqltx.Commit()
	case "ping":
		err = c.dbs[name].Ping()
	}
	return err
}

func (c *clerk) release([]string) string {
	done := make(chan error)
	go func() {
		c.rows.Close()
		done <- c.rows.Err()
	}()
	return answer(<-done)
}

func (c *clerk) broken(args []string) string {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.dsn)
	check(err)
	c.handles["broken"] = conn
	_, err = c.handles["conn"].Exec(ctx, "SELECT pg_terminate_backend("+fmt.Sprint(conn.PgConn().PID())+", 10000)")
	check(err)
	return c.do(append([]string{"broken"}, args...))
}

func (c *clerk) refused() string {
	pool, err := pgxpool.New(context.Background(), "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
	check(err)
	defer pool.Close()
	_, err = pool.Exec(context.Background(), "DELETE FROM nothing")
	if err == nil {
		return "ok"
	}
	return "failed"
}

func (c *clerk) exhaust() string {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(c.dsn)
	check(err)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(err)
	defer pool.Close()
	conn, err := pool.Acquire(ctx)
	check(err)
	defer conn.Release()
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	rows, err := pool.Query(short, "SELECT a FROM numbers")
	if err == nil {
		rows.Close()
	}
	return answer(err)
}

// work is what a request of load does.
func (c *clerk) work(ctx context.Context) string {
	pool := c.handles["pool"]
	if _, err := pool.Exec(ctx, "UPDATE loads SET n = n WHERE n = $1", 1); err != nil {
		return answer(err)
	}
	rows, err := pool.Query(ctx, "SELECT n FROM loads")
	if err != nil {
		return answer(err)
	}
	for rows.Next() {
	}
	if rows.Err() != nil {
		return answer(rows.Err())
	}
	return answer(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return sendBatch(ctx, tx, []string{"INSERT INTO loads VALUES ($1)", "INSERT INTO loads VALUES ($1)", "DELETE FROM loads WHERE n = 1"})
	}))
}

func load(url string, goroutines, rounds int) string {
	var all sync.WaitGroup
	var mu sync.Mutex
	failed := ""
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < rounds; j++ {
				if text := get(url); text != "ok" {
					mu.Lock()
					failed = text
					mu.Unlock()
				}
			}
		}()
	}
	all.Wait()
	if failed != "" {
		return failed
	}
	return "load"
}
