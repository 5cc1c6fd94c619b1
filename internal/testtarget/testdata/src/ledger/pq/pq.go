// Package pq is a driver for package database/sql without a database. Its name is that of a driver for PostgreSQL.
package pq

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"sync"
	"time"
)

// Driver is the driver.
type Driver struct{}

// Error is an error of the database.
type Error struct{ Code string }

func (e *Error) Error() string { return e.Code }

// Code is an error whose type is not a pointer.
type Code int

func (c Code) Error() string { return fmt.Sprint(int(c)) }

var (
	mu       sync.Mutex
	troubles []string // of the next operations
	refusals int      // of the next connections
)

// Trouble makes the next n operations fail in a way.
func Trouble(kind string, n int) {
	mu.Lock()
	defer mu.Unlock()
	for i := 0; i < n; i++ {
		if kind == "refused" {
			refusals++
		} else {
			troubles = append(troubles, kind)
		}
	}
}

// trouble returns the error of an operation.
func trouble(ctx context.Context) error {
	mu.Lock()
	kind := ""
	if len(troubles) > 0 {
		kind, troubles = troubles[0], troubles[1:]
	}
	mu.Unlock()
	switch kind {
	case "error":
		return &Error{"42P01"}
	case "code":
		return Code(42)
	case "bad":
		return driver.ErrBadConn
	case "wrapped":
		return fmt.Errorf("broken pipe: %w", driver.ErrBadConn)
	case "skip":
		return driver.ErrSkip
	case "panic":
		panic("trouble")
	case "sleep":
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Second):
		}
	}
	return nil
}

// Open implements driver.Driver.
func (*Driver) Open(string) (driver.Conn, error) {
	mu.Lock()
	defer mu.Unlock()
	if refusals > 0 {
		refusals--
		return nil, &Error{"refused"}
	}
	return &Conn{}, nil
}

// Conn is a connection.
type Conn struct{}

func (c *Conn) Prepare(query string) (driver.Stmt, error) {
	return &Stmt{}, trouble(context.Background())
}

func (c *Conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return &Stmt{}, trouble(ctx)
}

func (c *Conn) Close() error { return nil }

func (c *Conn) Begin() (driver.Tx, error) { return Tx{}, trouble(context.Background()) }

func (c *Conn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	return Tx{}, trouble(ctx)
}

func (c *Conn) Ping(ctx context.Context) error { return trouble(ctx) }

func (c *Conn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if err := trouble(ctx); err != nil {
		return nil, err
	}
	return &Rows{}, nil
}

func (c *Conn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if err := trouble(ctx); err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), nil
}

// Stmt is a prepared statement.
type Stmt struct{}

func (s *Stmt) Close() error  { return nil }
func (s *Stmt) NumInput() int { return -1 }

func (s *Stmt) Exec([]driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), trouble(context.Background())
}

func (s *Stmt) Query([]driver.Value) (driver.Rows, error) {
	return &Rows{}, trouble(context.Background())
}

func (s *Stmt) ExecContext(ctx context.Context, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), trouble(ctx)
}

func (s *Stmt) QueryContext(ctx context.Context, _ []driver.NamedValue) (driver.Rows, error) {
	return &Rows{}, trouble(ctx)
}

// Tx is a transaction.
type Tx struct{}

func (Tx) Commit() error   { return trouble(context.Background()) }
func (Tx) Rollback() error { return trouble(context.Background()) }

// Rows have one column and no row.
type Rows struct{}

func (*Rows) Columns() []string         { return []string{"n"} }
func (*Rows) Close() error              { return nil }
func (*Rows) Next([]driver.Value) error { return io.EOF }
