// Shop contains servers and clients of HTTP/1 and HTTP/2, and a database. It is for tests that read its structs: it speaks
// the protocol and runs none of the rest unless it has an argument.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		trade(os.Args[1])
	}
	serve(true, nil)
}

// trade sends a request to a server, and a query to a database of an unknown driver.
func trade(query string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.URL, r.Header) })
	server := httptest.NewServer(mux)
	defer server.Close()
	if response, err := http.Get(server.URL); err == nil {
		response.Body.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), "shop", query), time.Second)
	defer cancel()
	db, err := sql.Open("none", query)
	if err != nil {
		fmt.Println(err)
		return
	}
	if conn, err := db.Conn(ctx); err == nil {
		conn.Close()
	}
	if tx, err := db.BeginTx(ctx, nil); err == nil {
		statement, err := tx.PrepareContext(ctx, query)
		fmt.Println(statement, err)
	}
}
