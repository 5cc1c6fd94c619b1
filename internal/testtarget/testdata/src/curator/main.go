// Curator uses the MongoDB driver with a server that it contains itself: see peer.go. It builds with each version of the driver that a
// file such as mongo-2.0.mod names; the build tag mongo1 is for version 1.
//
// It adds the commands
//
//	do OPERATION COLLECTION  performs an operation, then `ok` or `failed TEXT`. What the server does depends on the collection.
//	                 The operations are insert, unacknowledged (an insert), find (of three documents, two at a time), one, update,
//	                 delete, aggregate, count, create, ping
//	timeout MS       bounds the next operation; 0: its context is canceled
//	hangup N         the server closes the connections of the next N commands
//	refused          reads from a server that does not exist
//	inside OPERATION COLLECTION  the same as do, in a request of HTTP
//	load G N         makes N requests of HTTP in each of G goroutines. A request inserts, finds and deletes
//	server ADDRESS   from now on, operations are those on another server, which is a real one
//	use G N          the same as load, with requests that a real server answers: each goroutine has a collection of its own, in which
//	                 a request inserts three documents and one of them again, which fails, finds, updates, counts and deletes them
//	counts           answers with the numbers of commands that the server has received, as in `find=2 insert=1`
//	address          answers with the address of the server
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

type curator struct {
	peer    *peer
	client  *client
	timeout time.Duration // of the next operation; negative: none
	held    []context.CancelFunc
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	c := &curator{timeout: -1, peer: listen()}
	var err error
	c.client, err = connect("mongodb://"+c.peer.address+"/?directConnection=true", 30*time.Second)
	check(err)
	check(c.perform(context.Background(), "ping", ""))
	c.peer.reset()
	pool := elsewhere(8)
	handle := func(w http.ResponseWriter, r *http.Request) {
		for _, operation := range strings.Split(r.URL.Query().Get("do"), ",") {
			if err := c.perform(r.Context(), operation, r.URL.Query().Get("on")); err != nil {
				fmt.Fprint(w, answer(err))
				return
			}
		}
		fmt.Fprint(w, "ok")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pooled" {
			pool(func() { handle(w, r) })
			return
		}
		handle(w, r)
	}))
	serve(false, map[string]command{
		"do": func(args []string) string { return answer(c.perform(c.context(), args[0], args[1])) },
		"timeout": func(args []string) string {
			c.timeout = time.Duration(number(args[0])) * time.Millisecond
			return "ok"
		},
		"hangup": func(args []string) string {
			c.peer.hangUp(number(args[0]))
			return "ok"
		},
		"refused": func([]string) string { return refused() },
		"inside":  func(args []string) string { return get(server.URL + "?do=" + args[0] + "&on=" + args[1]) },
		"load": func(args []string) string {
			return load(server.URL+"?do=insert,find,delete&on=loads", number(args[0]), number(args[1]))
		},
		"pooled": func(args []string) string {
			return load(server.URL+"/pooled?do=insert,find,delete&on=loads", number(args[0]), number(args[1]))
		},
		"server": func(args []string) string {
			var err error
			c.client, err = connect("mongodb://"+args[0]+"/?directConnection=true", 30*time.Second)
			check(err)
			return answer(c.perform(context.Background(), "ping", ""))
		},
		"use": func(args []string) string {
			return load(server.URL+"?do=fill,again,find,update,count,delete&on=used%d", number(args[0]), number(args[1]))
		},
		"counts":  func([]string) string { return c.peer.counts() },
		"address": func([]string) string { return c.peer.address },
	})
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func answer(err error) string {
	if err != nil {
		return "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "ok"
}

func (c *curator) context() context.Context {
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

func (c *curator) perform(ctx context.Context, operation, name string) (err error) {
	db := c.client.Database("museum")
	on := db.Collection(name)
	all, one := document{}, document{{Key: "_id", Value: 1}}
	change := document{{Key: "$set", Value: document{{Key: "secret", Value: "s3cret"}}}}
	switch operation {
	case "insert":
		_, err = on.InsertOne(ctx, one)
	case "fill":
		for id := 1; id <= 3 && err == nil; id++ {
			_, err = on.InsertOne(ctx, document{{Key: "_id", Value: id}})
		}
	case "again":
		if _, again := on.InsertOne(ctx, one); again == nil {
			err = fmt.Errorf("a document is there twice")
		}
	case "unacknowledged":
		if _, err = unacknowledged(db, name).InsertOne(ctx, one); err != nil && strings.Contains(err.Error(), "unacknowledged") {
			err = nil
		}
	case "find":
		var n int
		if n, err = find(ctx, on); err == nil && n != 3 {
			err = fmt.Errorf("%d documents", n)
		}
	case "one":
		err = on.FindOne(ctx, all).Err()
	case "update":
		_, err = on.UpdateOne(ctx, all, change)
	case "delete":
		_, err = on.DeleteMany(ctx, all)
	case "aggregate":
		_, err = on.Aggregate(ctx, []document{{{Key: "$match", Value: all}}})
	case "count":
		_, err = on.CountDocuments(ctx, all)
	case "create":
		err = db.CreateCollection(ctx, name)
	case "ping":
		err = db.RunCommand(ctx, document{{Key: "ping", Value: 1}}).Err()
	default:
		panic(operation)
	}
	return err
}

func refused() string {
	client, err := connect("mongodb://127.0.0.1:1/?directConnection=true", 50*time.Millisecond)
	check(err)
	defer client.Disconnect(context.Background())
	if err := client.Database("museum").Collection("halls").FindOne(context.Background(), document{}).Err(); err != nil {
		return "failed"
	}
	return "ok"
}

func get(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return "failed " + err.Error()
	}
	defer response.Body.Close()
	var text [1 << 12]byte
	n, _ := response.Body.Read(text[:])
	return string(text[:n])
}

func load(url string, goroutines, rounds int) string {
	var all sync.WaitGroup
	var mu sync.Mutex
	failed := "load"
	for i := 0; i < goroutines; i++ {
		url := strings.Replace(url, "%d", strconv.Itoa(i), 1)
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
	return failed
}
