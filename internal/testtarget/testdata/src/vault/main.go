// Vault serves HTTP. It handles some of the requests in secret mode, for which it is built with GOEXPERIMENT=runtimesecret.
//
// It adds the commands `address`, which answers with the address of its server: `address PLAIN`, and `wait`, which starts two goroutines
// with the label place that wait, one of them in secret mode. The server serves the paths
//
//	/open?word=W    executes a statement with the word, and requests /open/W
//	/secret?word=W  the same in secret mode
//	/child?word=W   the same on a goroutine that was created in secret mode
//	/open/W         answers with an empty body
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"runtime/secret"
)

// book is a database that accepts each statement.
type book struct{}

func (b book) Connect(context.Context) (driver.Conn, error) { return b, nil }
func (b book) Driver() driver.Driver                        { return b }
func (b book) Open(string) (driver.Conn, error)             { return b, nil }
func (b book) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (b book) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }
func (b book) Close() error                                 { return nil }
func (b book) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil
}

var (
	db     = sql.OpenDB(book{})
	server *httptest.Server
)

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "vault: %v\n", err)
		os.Exit(2)
	}
}

// work uses a word.
func work(ctx context.Context, word string) {
	_, err := db.ExecContext(ctx, "UPDATE "+word+" SET a = 1")
	check(err)
	resp, err := http.Get(server.URL + "/open/" + word)
	check(err)
	resp.Body.Close()
}

func wait(ready chan<- bool) {
	ready <- true
	select {}
}

// labelled has two goroutines wait.
func labelled() {
	ready := make(chan bool)
	go pprof.Do(context.Background(), pprof.Labels("place", "open"), func(context.Context) { wait(ready) })
	go pprof.Do(context.Background(), pprof.Labels("place", "hidden"), func(context.Context) { secret.Do(func() { wait(ready) }) })
	<-ready
	<-ready
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/open", func(w http.ResponseWriter, r *http.Request) { work(r.Context(), r.FormValue("word")) })
	mux.HandleFunc("/open/", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, r *http.Request) {
		secret.Do(func() { work(r.Context(), r.FormValue("word")) })
	})
	mux.HandleFunc("/child", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan bool)
		secret.Do(func() {
			go func() {
				defer close(done)
				work(r.Context(), r.FormValue("word"))
			}()
		})
		<-done
	})
	server = httptest.NewServer(mux)
	serve(false, map[string]command{
		"wait": func([]string) string {
			labelled()
			return "wait"
		},
		"address": func([]string) string { return "address " + server.Listener.Addr().String() },
	})
}
