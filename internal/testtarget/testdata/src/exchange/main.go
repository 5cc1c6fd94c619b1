// Exchange is a gRPC server and its clients in one program. Messages are bytes, so that it requires no generated code, and it builds
// with each version of google.golang.org/grpc that a file such as grpc-1.14.mod names. The build tag grpc1.14
// omits what that version does not have.
//
// It adds the commands
//
//	unary TEXT      calls the method Echo; the answer is the code of the status. TEXT is what the handler does: `ok`, `code N` returns
//	                the status N with the message `message N`, `plain` returns an error without a status, `panic` panics, which an
//	                interceptor recovers, `fatal` panics, `exit` calls runtime.Goexit, `relay` calls Echo with `ok` itself, `spawn`
//	                does that on a new goroutine, `pooled` on one that exists already, `wait` waits until the client has given up, `late` does that and returns no error,
//	                and `mute` waits one second
//	traced TRACEPARENT TEXT  the same with this metadata; `-` for several words
//	labeled N       calls Echo with `ok` and N keys of metadata
//	received        answers with the traceparent headers of the RPCs of method Echo since the last time: their numbers and values
//	garbage         collects garbage again and again from now on
//	carried         answers with the tracestate and baggage headers of these RPCs: `N:STATE|M:BAGGAGE` for each
//	carry STATE BAGGAGE PARENT  calls Echo with `relay` and these headers
//	tagged N        calls Echo with `ok` and N more keys of metadata, the last of them traceparent
//	missing METHOD  calls a method that does not exist
//	refused         calls a server that does not exist
//	unresolved      calls a server whose name is never resolved, with a deadline
//	deadline TEXT   calls Echo with a deadline of 50 ms
//	cancel TEXT     calls Echo, and cancels the call when the handler has begun
//	abandon TEXT    calls Echo, and closes the connection when the handler has begun
//	feed N          calls the streaming method Feed, which sends N messages
//	collect N       calls the streaming method Collect, to which it sends N messages
//	talk N          calls the streaming method Talk, which answers N messages
//	leave           calls Talk, and cancels the call instead of reading the end
//	fail N          calls Talk, which returns the status N
//	overlap         calls Talk, calls Echo before that ends, then ends it
//	parallel N M    calls Echo M times on each of N goroutines
//	workers         starts a server with two workers, which later commands use
//	http            starts a server that uses package golang.org/x/net/http2, which later commands use
//	address         answers with the address of the server
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A frame is a message.
type frame struct{ text string }

// plain is the codec of frames.
type plain struct{}

func (plain) Name() string   { return "plain" }
func (plain) String() string { return "plain" }

func (plain) Marshal(v interface{}) ([]byte, error) { return []byte(v.(*frame).text), nil }

func (plain) Unmarshal(data []byte, v interface{}) error {
	v.(*frame).text = string(data)
	return nil
}

const service = "loupe.test.Exchange"

func main() {
	encoding.RegisterCodec(plain{})
	x := &exchange{begun: make(chan struct{}, 100), pool: elsewhere(2)}
	x.start()
	x.connect()
	serve(false, map[string]command{
		"unary":      func(args []string) string { return x.unary(context.Background(), strings.Join(args, " ")) },
		"traced":     x.traced,
		"tagged":     x.tagged,
		"labeled":    x.labeled,
		"received":   x.received,
		"carried":    x.carried,
		"carry":      x.carry,
		"garbage":    garbage,
		"missing":    func(args []string) string { return x.call(context.Background(), x.client, args[0], "ok") },
		"refused":    func([]string) string { return x.unreachable("127.0.0.1:1", time.Minute) },
		"unresolved": func([]string) string { return x.unreachable("never:///name", 50*time.Millisecond) },
		"deadline":   x.deadline,
		"cancel":     x.cancel,
		"abandon":    x.abandon,
		"feed":       x.feed,
		"collect":    x.collect,
		"talk":       func(args []string) string { return x.talk(args[0], nil) },
		"overlap":    func([]string) string { return x.talk("1", func() { x.unary(context.Background(), "ok") }) },
		"leave":      x.leave,
		"fail":       x.fail,
		"parallel":   x.parallel,
		"workers":    x.workers,
		"http":       x.http,
		"address":    func([]string) string { return x.addr },
	})
}

type exchange struct {
	addr   string
	client *grpc.ClientConn
	pool   func(func())  // has a goroutine that exists already call a function
	begun  chan struct{} // receives when a handler that waits has begun

	mu   sync.Mutex
	seen []string // traceparent headers
	also []string // tracestate and baggage headers
}

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "exchange: %v\n", err)
		os.Exit(2)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func (x *exchange) server(options ...grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(append(options, grpc.UnaryInterceptor(recovering))...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*interface{})(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: x.handleEcho}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Feed", Handler: x.handleFeed, ServerStreams: true},
			{StreamName: "Collect", Handler: x.handleCollect, ClientStreams: true},
			{StreamName: "Talk", Handler: x.handleTalk, ServerStreams: true, ClientStreams: true},
		},
	}, x)
	return s
}

func (x *exchange) start(options ...grpc.ServerOption) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	x.addr = l.Addr().String()
	go x.server(options...).Serve(l)
}

func dial(target string) *grpc.ClientConn {
	client, err := grpc.Dial(target, grpc.WithInsecure(), grpc.WithDefaultCallOptions(grpc.CallContentSubtype("plain")))
	check(err)
	return client
}

func (x *exchange) connect() {
	x.client = dial(x.addr)
	if x.unary(context.Background(), "ok") != "OK" {
		check(errors.New("the server does not answer"))
	}
}

func (x *exchange) workers([]string) string {
	x.start(withWorkers(2))
	x.connect()
	return "workers"
}

func (x *exchange) http([]string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	x.addr = l.Addr().String()
	s := x.server()
	go func() {
		for {
			conn, err := l.Accept()
			check(err)
			go new(http2.Server).ServeConn(conn, &http2.ServeConnOpts{Handler: s})
		}
	}()
	x.connect()
	return "http"
}

// recovering makes panics errors, unless they are to end the program.
func recovering(ctx context.Context, req interface{}, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer interface{}, err error) {
	if req.(*frame).text == "panic" {
		defer func() {
			err = status.Errorf(codes.Internal, "%v", recover())
		}()
	}
	return handle(ctx, req)
}

func (x *exchange) handleEcho(_ interface{}, ctx context.Context, decode func(interface{}) error, intercept grpc.UnaryServerInterceptor) (interface{}, error) {
	f := new(frame)
	if err := decode(f); err != nil {
		return nil, err
	}
	return intercept(ctx, f, &grpc.UnaryServerInfo{Server: x, FullMethod: "/" + service + "/Echo"}, x.echo)
}

func (x *exchange) echo(ctx context.Context, req interface{}) (interface{}, error) {
	f := req.(*frame)
	x.note(ctx)
	words := strings.Fields(f.text)
	switch words[0] {
	case "code":
		return nil, status.Error(codes.Code(number(words[1])), "message "+words[1])
	case "plain":
		return nil, errors.New("no status")
	case "panic", "fatal":
		panic(words[0])
	case "exit":
		runtime.Goexit()
	case "relay":
		x.unary(ctx, "ok")
	case "pooled":
		x.pool(func() { x.unary(ctx, "ok") })
	case "spawn":
		done := make(chan struct{})
		go func() {
			x.unary(ctx, "ok")
			close(done)
		}()
		<-done
	case "wait":
		x.begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	case "late":
		x.begun <- struct{}{}
		<-ctx.Done()
	case "mute":
		time.Sleep(time.Second)
	}
	return f, nil
}

func (x *exchange) handleFeed(_ interface{}, s grpc.ServerStream) error {
	var f frame
	if err := s.RecvMsg(&f); err != nil {
		return err
	}
	for i := 0; i < number(f.text); i++ {
		if err := s.SendMsg(&f); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) handleCollect(_ interface{}, s grpc.ServerStream) error {
	for n := 0; ; n++ {
		var f frame
		switch err := s.RecvMsg(&f); err {
		case nil:
		case io.EOF:
			return s.SendMsg(&frame{strconv.Itoa(n)})
		default:
			return err
		}
	}
}

func (x *exchange) handleTalk(_ interface{}, s grpc.ServerStream) error {
	for {
		var f frame
		if err := s.RecvMsg(&f); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if strings.HasPrefix(f.text, "code ") {
			n := number(f.text[len("code "):])
			return status.Errorf(codes.Code(n), "message %d", n)
		}
		if err := s.SendMsg(&f); err != nil {
			return err
		}
	}
}

// codeOf returns the code of an error as the answer of a command.
func codeOf(err error) string { return status.Code(err).String() }

func (x *exchange) call(ctx context.Context, client *grpc.ClientConn, method, text string) string {
	return codeOf(client.Invoke(ctx, "/"+service+"/"+method, &frame{text}, new(frame)))
}

func (x *exchange) unary(ctx context.Context, text string) string {
	return x.call(ctx, x.client, "Echo", text)
}

func (x *exchange) traced(args []string) string {
	ctx := metadata.NewOutgoingContext(context.Background(), metadata.Pairs("traceparent", args[0]))
	return x.unary(ctx, strings.Join(args[1:], " "))
}

func (x *exchange) tagged(args []string) string {
	md := metadata.MD{}
	for i := 0; i < number(args[0]); i++ {
		md.Set(fmt.Sprintf("key-%d", i), "value")
	}
	md.Set("traceparent", args[1])
	return x.unary(metadata.NewOutgoingContext(context.Background(), md), "ok")
}

func (x *exchange) labeled(args []string) string {
	md := metadata.MD{}
	for i := 0; i < number(args[0]); i++ {
		md.Set(fmt.Sprintf("key-%d", i), "value")
	}
	return x.unary(metadata.NewOutgoingContext(context.Background(), md), "ok")
}

// note keeps the traceparent headers of an RPC.
func (x *exchange) note(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md["traceparent"]
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen = append(x.seen, fmt.Sprintf("%d:%s", len(values), strings.Join(values, ",")))
	state, baggage := md["tracestate"], md["baggage"]
	x.also = append(x.also, fmt.Sprintf("%d:%s|%d:%s", len(state), strings.Join(state, "&"), len(baggage), strings.Join(baggage, "&")))
}

func (x *exchange) carried([]string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	answer := strings.Join(x.also, " ")
	x.also = nil
	return "carried " + answer
}

func (x *exchange) carry(args []string) string {
	md := metadata.Pairs("traceparent", args[2], "tracestate", args[0], "baggage", args[1])
	return x.unary(metadata.NewOutgoingContext(context.Background(), md), "relay")
}

func (x *exchange) received([]string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	answer := strings.Join(x.seen, " ")
	x.seen = nil
	return "received " + answer
}

func garbage([]string) string {
	go func() {
		for {
			runtime.GC()
		}
	}()
	return "garbage"
}

func (x *exchange) unreachable(target string, patience time.Duration) string {
	client := dial(target)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return x.call(ctx, client, "Echo", "ok")
}

func (x *exchange) deadline(args []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	return x.unary(ctx, strings.Join(args, " "))
}

func (x *exchange) cancel(args []string) string {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-x.begun
		cancel()
	}()
	return x.unary(ctx, strings.Join(args, " "))
}

func (x *exchange) abandon(args []string) string {
	client := dial(x.addr)
	go func() {
		<-x.begun
		client.Close()
	}()
	return x.call(context.Background(), client, "Echo", strings.Join(args, " "))
}

// open begins a stream.
func (x *exchange) open(ctx context.Context, method string) grpc.ClientStream {
	s, err := x.client.NewStream(ctx, &grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true}, "/"+service+"/"+method)
	check(err)
	return s
}

// rest receives the messages of a stream, and returns their number and the code at its end.
func rest(s grpc.ClientStream) string {
	for n := 0; ; n++ {
		switch err := s.RecvMsg(new(frame)); err {
		case nil:
		case io.EOF:
			return fmt.Sprintf("%d OK", n)
		default:
			return fmt.Sprintf("%d %s", n, codeOf(err))
		}
	}
}

func (x *exchange) feed(args []string) string {
	s := x.open(context.Background(), "Feed")
	check(s.SendMsg(&frame{args[0]}))
	check(s.CloseSend())
	return rest(s)
}

func (x *exchange) collect(args []string) string {
	s := x.open(context.Background(), "Collect")
	for i := 0; i < number(args[0]); i++ {
		check(s.SendMsg(&frame{"message"}))
	}
	check(s.CloseSend())
	return rest(s)
}

func (x *exchange) talk(count string, between func()) string {
	s := x.open(context.Background(), "Talk")
	for i := 0; i < number(count); i++ {
		check(s.SendMsg(&frame{"message"}))
		check(s.RecvMsg(new(frame)))
	}
	if between != nil {
		between()
	}
	check(s.CloseSend())
	return rest(s)
}

func (x *exchange) leave([]string) string {
	ctx, cancel := context.WithCancel(context.Background())
	s := x.open(ctx, "Talk")
	check(s.SendMsg(&frame{"message"}))
	check(s.RecvMsg(new(frame)))
	cancel()
	return "leave"
}

func (x *exchange) fail(args []string) string {
	s := x.open(context.Background(), "Talk")
	check(s.SendMsg(&frame{"code " + args[0]}))
	return rest(s)
}

func (x *exchange) parallel(args []string) string {
	var wg sync.WaitGroup
	for i := 0; i < number(args[0]); i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < number(args[1]); i++ {
				x.unary(context.Background(), "relay")
			}
		}()
	}
	wg.Wait()
	return "parallel"
}
