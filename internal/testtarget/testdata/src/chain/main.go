// Chain is a service that answers requests by sending one to the next service: by HTTP or by gRPC. Messages are bytes, so that it requires
// no generated code. With the build tag sdk it is instrumented by hand, with the OpenTelemetry SDK (with sdk and old, with
// versions of its instrumentation that use interceptors of gRPC; with sdk and sql, also the database), and exports its spans as the
// OTEL_* variables say; their sampler, propagators and so on are the defaults. With the argument unsampled its spans are not sampled, with
// unexported it exports none, with apart its requests carry no contexts, and with idle it has the SDK's instrumentation of libraries but
// no SDK.
//
// It adds the commands
//
//	address         answers with the addresses of its servers: `address HTTP GRPC`
//	next http URL   requests that URL of the next service, followed by the ID of the order
//	next grpc ADDR  calls the method Reserve of the next service
//	flush           exports the spans that have ended
//	headers         answers with the largest number of traceparent headers that a request has had
//	job             stores an order and requests it from the next service, in a span of its own, by a client without instrumentation
//	bare            does the same in client spans of its own, which get their attributes later or never
//
// The HTTP server serves GET /orders/{id}, the gRPC server the method loupe.test.Stock/Reserve. The last service of a chain knows no order
// with the ID missing, and fails for the ID broken. Each service stores an order whose ID begins with stored: it executes a statement, in
// a span of its own if it is instrumented. One whose ID begins with spread is requested from the next service on another goroutine.
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A frame is a message.
type frame struct{ text string }

// plain is the codec of frames.
type plain struct{}

func (plain) Name() string                          { return "plain" }
func (plain) Marshal(v interface{}) ([]byte, error) { return []byte(v.(*frame).text), nil }

func (plain) Unmarshal(data []byte, v interface{}) error {
	v.(*frame).text = string(data)
	return nil
}

const service = "loupe.test.Stock"

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "chain: %v\n", err)
		os.Exit(2)
	}
}

// A chain is one of its services.
type chain struct {
	http, grpc net.Listener
	client     *http.Client
	db         *sql.DB

	mu   sync.Mutex
	most int              // traceparent headers of a request
	url  string           // of the next service
	conn *grpc.ClientConn // to the next service
}

func main() {
	encoding.RegisterCodec(plain{})
	flush := instrument()
	c := &chain{client: &http.Client{Transport: wrapTransport(http.DefaultTransport)}, db: openDB(book{})}
	c.start()
	serve(false, map[string]command{
		"address": func([]string) string {
			return "address " + c.http.Addr().String() + " " + c.grpc.Addr().String()
		},
		"next": c.next,
		"headers": func([]string) string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return fmt.Sprint("headers ", c.most)
		},
		"job": func([]string) string {
			c.job()
			return "job"
		},
		"bare": func([]string) string {
			c.bare()
			return "bare"
		},
		"flush": func([]string) string {
			check(flush(context.Background()))
			return "flush"
		},
	})
}

func (c *chain) start() {
	var err error
	c.http, err = net.Listen("tcp", "127.0.0.1:0")
	check(err)
	c.grpc, err = net.Listen("tcp", "127.0.0.1:0")
	check(err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", c.order)
	go http.Serve(c.http, wrapHandler(mux))
	s := grpc.NewServer(serverOptions()...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: service, HandlerType: (*interface{})(nil), Methods: []grpc.MethodDesc{{MethodName: "Reserve", Handler: c.reserve}}}, c)
	go s.Serve(c.grpc)
}

func (c *chain) next(args []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if args[0] == "http" {
		c.url = args[1]
		return "next"
	}
	var err error
	c.conn, err = grpc.NewClient(args[1], append(clientOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.CallContentSubtype("plain")))...)
	check(err)
	c.conn.Connect()
	return "next"
}

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

// store executes a statement.
func (c *chain) store(ctx context.Context, id string) {
	ctx, end := inner(ctx, "store")
	defer end()
	_, err := c.db.ExecContext(ctx, "INSERT INTO orders VALUES ($1)", id)
	check(err)
}

// job is work that no request has caused.
func (c *chain) job() {
	ctx, end := inner(context.Background(), "job")
	defer end()
	c.store(ctx, "stored-by-job")
	c.request(ctx)
}

// request requests an order from the next service, by a client without instrumentation.
func (c *chain) request(ctx context.Context) {
	c.mu.Lock()
	url := c.url
	c.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, "GET", url+"by-job", nil)
	check(err)
	resp, err := http.DefaultClient.Do(req)
	check(err)
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// bare sends requests in client spans of the program that have no attributes at their starts.
func (c *chain) bare() {
	outgoing("bare", "", "", c.request)
	outgoing("early", "http.request.method", "", c.request)
	outgoing("late", "", "http.request.method", c.request)
	outgoing("two", "", "http.request.method", func(ctx context.Context) {
		c.request(ctx)
		c.request(ctx)
	})
	outgoing("statement", "", "db.system.name", func(ctx context.Context) {
		_, err := c.db.ExecContext(ctx, "INSERT INTO orders VALUES ($1)", "by-job")
		check(err)
	})
	outgoing("other", "", "db.system.name", c.request)
}

// handle answers a request with n traceparent headers.
func (c *chain) handle(ctx context.Context, id string, n int) (text string, code codes.Code) {
	c.mu.Lock()
	if n > c.most {
		c.most = n
	}
	c.mu.Unlock()
	if strings.HasPrefix(id, "stored") {
		c.store(ctx, id)
	}
	if !strings.HasPrefix(id, "spread") {
		return c.forward(ctx, id)
	}
	done := make(chan bool)
	go func() {
		text, code = c.forward(ctx, id)
		close(done)
	}()
	<-done
	return text, code
}

// forward asks the next service for an order.
func (c *chain) forward(ctx context.Context, id string) (string, codes.Code) {
	c.mu.Lock()
	url, conn := c.url, c.conn
	c.mu.Unlock()
	switch {
	case conn != nil:
		f := new(frame)
		err := conn.Invoke(ctx, "/"+service+"/Reserve", &frame{id}, f)
		return f.text, status.Code(err)
	case url != "":
		req, err := http.NewRequestWithContext(ctx, "GET", url+id, nil)
		check(err)
		resp, err := c.client.Do(req)
		if err != nil {
			return err.Error(), codes.Unavailable
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text), toCode[resp.StatusCode]
	case id == "missing":
		return "", codes.NotFound
	case id == "broken":
		return "", codes.Internal
	}
	return "order " + id, codes.OK
}

var toStatus = map[codes.Code]int{codes.OK: 200, codes.NotFound: 404, codes.Internal: 500, codes.Unavailable: 503}

var toCode = map[int]codes.Code{200: codes.OK, 404: codes.NotFound, 500: codes.Internal, 503: codes.Unavailable}

func (c *chain) order(rw http.ResponseWriter, r *http.Request) {
	text, code := c.handle(r.Context(), r.PathValue("id"), len(r.Header["Traceparent"]))
	rw.WriteHeader(toStatus[code])
	io.WriteString(rw, text)
}

func (c *chain) reserve(_ interface{}, ctx context.Context, decode func(interface{}) error, intercept grpc.UnaryServerInterceptor) (interface{}, error) {
	f := new(frame)
	if err := decode(f); err != nil {
		return nil, err
	}
	if intercept == nil {
		return c.answer(ctx, f)
	}
	return intercept(ctx, f, &grpc.UnaryServerInfo{Server: c, FullMethod: "/" + service + "/Reserve"}, c.answer)
}

func (c *chain) answer(ctx context.Context, request interface{}) (interface{}, error) {
	f := request.(*frame)
	md, _ := metadata.FromIncomingContext(ctx)
	text, code := c.handle(ctx, f.text, len(md["traceparent"]))
	if code != codes.OK {
		return nil, status.Error(code, "no order "+f.text)
	}
	return &frame{text}, nil
}
