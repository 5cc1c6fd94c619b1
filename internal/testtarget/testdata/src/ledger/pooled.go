package main

import (
	"context"
	"net/http"
	"sync"
)

// A pool performs operations for requests of HTTP in goroutines that exist before these.
type pool struct {
	l    *ledger
	url  string
	call func(func())
}

func newPool(l *ledger) *pool { return &pool{l: l, call: elsewhere(4)} }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// serve serves a request of pooled.
func (p *pool) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p.call(func() { p.perform(ctx) })
}

func (p *pool) perform(ctx context.Context) {
	db := p.l.dbs["db"]
	check(db.PingContext(ctx))
	rows, err := db.QueryContext(ctx, "SELECT n FROM loads WHERE n = ?", 1)
	check(err)
	check(rows.Close())
	stmt, err := db.PrepareContext(ctx, "DELETE FROM loads")
	check(err)
	_, err = stmt.ExecContext(ctx)
	check(err)
	check(stmt.Close())
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	_, err = tx.ExecContext(ctx, "UPDATE loads SET n = ?", 1)
	check(err)
	check(tx.Commit())
	tx, err = db.BeginTx(ctx, nil)
	check(err)
	check(tx.Rollback())
	conn, err := db.Conn(ctx)
	check(err)
	_, err = conn.ExecContext(ctx, "UPDATE loads SET n = 2")
	check(err)
	check(conn.Close())
}

// requests sends requests to itself from many goroutines.
func (p *pool) requests(args []string) string {
	var all sync.WaitGroup
	for g := 0; g < number(args[0]); g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < number(args[1]); i++ {
				response, err := http.Get(p.url + "/pooled")
				check(err)
				response.Body.Close()
			}
		}()
	}
	all.Wait()
	return "pooled"
}
