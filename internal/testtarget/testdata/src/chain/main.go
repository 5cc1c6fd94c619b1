// Chain is a service that answers requests by sending one to the next service: by HTTP or by gRPC. Messages are bytes, so that it requires
// no generated code. With the build tag sdk it is instrumented by hand, with the OpenTelemetry SDK, and exports its spans as the
// OTEL_* variables say; their sampler, propagators and so on are the defaults.
//
// It adds the commands
//
//	address         answers with the addresses of its servers: `address HTTP GRPC`
//	next http URL   requests that URL of the next service, followed by the ID of the order
//	next grpc ADDR  calls the method Reserve of the next service
//	flush           exports the spans that have ended
//
// The HTTP server serves GET /orders/{id}, the gRPC server the method loupe.test.Stock/Reserve. The last service of a chain knows no order
// with the ID missing, and fails for the ID broken.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
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

	mu   sync.Mutex
	url  string           // of the next service
	conn *grpc.ClientConn // to the next service
}

func main() {
	encoding.RegisterCodec(plain{})
	flush := instrument()
	c := &chain{client: &http.Client{Transport: wrapTransport(http.DefaultTransport)}}
	c.start()
	serve(false, map[string]command{
		"address": func([]string) string {
			return "address " + c.http.Addr().String() + " " + c.grpc.Addr().String()
		},
		"next": c.next,
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
	text, code := c.forward(r.Context(), r.PathValue("id"))
	rw.WriteHeader(toStatus[code])
	io.WriteString(rw, text)
}

func (c *chain) reserve(_ interface{}, ctx context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	f := new(frame)
	if err := decode(f); err != nil {
		return nil, err
	}
	text, code := c.forward(ctx, f.text)
	if code != codes.OK {
		return nil, status.Error(code, "no order "+f.text)
	}
	return &frame{text}, nil
}
