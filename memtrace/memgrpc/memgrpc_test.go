package memgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/loupe-go/loupe/memtrace"
	"github.com/loupe-go/loupe/memtrace/memgrpc"
)

var sink sync.Map

// allocate allocates blocks of 1 KiB until the context is done.
func allocate(ctx context.Context, kib int) error {
	for i := range kib {
		sink.Store(i, make([]byte, 1024))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// server is a health service. The name of the service in a request says what to do.
type server struct {
	health.UnimplementedHealthServer
}

func (server) do(ctx context.Context, service string) error {
	what, kib := "", 0
	fmt.Sscanf(service, "%s %d", &what, &kib)
	switch what {
	case "go":
		done := make(chan error)
		go func() { done <- allocate(ctx, kib) }()
		return <-done
	case "wrapped":
		if err := allocate(ctx, kib); err != nil {
			return fmt.Errorf("search: %w", err)
		}
	case "status":
		if err := allocate(ctx, kib); err != nil {
			return status.FromContextError(context.Canceled).Err()
		}
	case "careless":
		return allocate(context.Background(), kib)
	case "missing":
		allocate(ctx, kib)
		return status.Error(codes.NotFound, "missing")
	case "canceled":
		allocate(ctx, kib)
		return context.Canceled
	case "panic":
		allocate(ctx, kib)
		panic(what)
	default:
		return allocate(ctx, kib)
	}
	return nil
}

func (s server) Check(ctx context.Context, r *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	if _, ok := ctx.(memtrace.Context); !ok {
		return nil, status.Error(codes.Internal, "no trace in the context")
	}
	if err := s.do(ctx, r.Service); err != nil {
		return nil, err
	}
	return &health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}, nil
}

// Watch sends an answer, and allocates as Check does, until sending fails; or does it once if the name ends in a full stop.
func (s server) Watch(r *health.HealthCheckRequest, stream health.Health_WatchServer) error {
	for {
		if err := s.do(stream.Context(), r.Service); err != nil {
			return err
		}
		if err := stream.Send(&health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}); err != nil {
			return err
		}
		if strings.HasSuffix(r.Service, ".") {
			return nil
		}
	}
}

// reports are what the interceptors report, by the number of the request.
type reports struct {
	mu   sync.Mutex
	list []memgrpc.Usage
}

func (r *reports) take(t *testing.T) memgrpc.Usage {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; { // the client may have the answer before
		r.mu.Lock()
		if n := len(r.list); n == 1 {
			u := r.list[0]
			r.list = nil
			r.mu.Unlock()
			return u
		} else if n > 1 {
			t.Errorf("%d reports of one request", n)
		}
		r.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("no report")
	return memgrpc.Usage{}
}

const budget = 256 // KiB

// serve starts a server on the loopback device and returns a client.
func serve(t *testing.T, o memgrpc.Options) health.HealthClient {
	t.Helper()
	recovered := func(p any) error { return status.Errorf(codes.Aborted, "recovered %v", p) }
	s := grpc.NewServer(
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
			defer func() {
				if p := recover(); p != nil {
					err = recovered(p)
				}
			}()
			return next(ctx, req)
		}, memgrpc.UnaryServerInterceptor(o)),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = recovered(p)
				}
			}()
			return next(srv, ss)
		}, memgrpc.StreamServerInterceptor(o)),
	)
	health.RegisterHealthServer(s, server{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); s.Stop() })
	return health.NewHealthClient(conn)
}

// watch calls Watch and returns how many answers came, and how the stream ended.
func watch(ctx context.Context, c health.HealthClient, service string) (int, error) {
	stream, err := c.Watch(ctx, &health.HealthCheckRequest{Service: service})
	if err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		if _, err := stream.Recv(); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

const passed = "memtrace: the limit of 262144 bytes was passed"

// TestRequests sends calls and streams of different sizes, some over their budget.
func TestRequests(t *testing.T) {
	if err := memtrace.Supported(); err != nil {
		t.Fatal(err)
	}
	var got reports
	client := serve(t, memgrpc.Options{
		Limits: []memtrace.Option{memtrace.WithLimitBytes(budget * memtrace.KiB), memtrace.WithDescendants()},
		Report: func(_ context.Context, method string, used memgrpc.Usage) {
			if !strings.HasPrefix(method, "/grpc.health.v1.Health/") {
				t.Error(method)
			}
			got.mu.Lock()
			defer got.mu.Unlock()
			got.list = append(got.list, used)
		},
		Failed: func(_ context.Context, _ string, err error) { t.Error(err) },
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		what    string
		kib     int
		code    codes.Code
		message string
		used    int64 // KiB
		over    bool
	}{
		{"plain", 1, codes.OK, "", 1, false},
		{"plain", 100, codes.OK, "", 100, false},
		{"plain", 1000, codes.ResourceExhausted, passed, budget, true},
		{"go", 100, codes.OK, "", 100, false},
		{"go", 1000, codes.ResourceExhausted, passed, budget, true},
		{"wrapped", 1000, codes.ResourceExhausted, passed, budget, true},
		{"status", 1000, codes.ResourceExhausted, passed, budget, true},
		{"careless", 1000, codes.OK, "", 1000, true},
		{"missing", 10, codes.NotFound, "missing", 10, false},
		{"missing", 1000, codes.NotFound, "missing", budget, true},
		{"canceled", 10, codes.Canceled, "context canceled", 10, false},
		{"panic", 50, codes.Aborted, "recovered panic", 50, false},
	} {
		service := fmt.Sprintf("%s %d .", c.what, c.kib)
		_, err := client.Check(ctx, &health.HealthCheckRequest{Service: service})
		unary := got.take(t)
		n, streamErr := watch(ctx, client, service)
		streamed := got.take(t)
		wantAnswers := 0
		if c.code == codes.OK {
			wantAnswers = 1
		}
		streamCode, streamMessage, answers := c.code, c.message, n
		if c.what == "careless" { // sending fails
			streamCode, streamMessage, wantAnswers = codes.ResourceExhausted, passed, 0
		}
		if s := status.Convert(err); s.Code() != c.code || s.Message() != c.message {
			t.Errorf("%s: %v, want %v: %s", service, err, c.code, c.message)
		}
		if s := status.Convert(streamErr); s.Code() != streamCode || s.Message() != streamMessage || answers != wantAnswers {
			t.Errorf("%s, stream: %d answers, then %v, want %d, then %v: %s", service, answers, streamErr, wantAnswers, streamCode, streamMessage)
		}
		for _, u := range []memgrpc.Usage{unary, streamed} {
			if u.Bytes < c.used<<10 || u.Bytes > c.used<<10+c.used<<8+16<<10 || u.Objects < c.used || u.Calls != u.Objects {
				t.Errorf("%s: %+v, want some %d KiB", service, u, c.used)
			}
			if over := u.Limit != nil; over != c.over || over && !errors.Is(u.Limit, memtrace.ErrLimitBytes) {
				t.Errorf("%s: limit %v", service, u.Limit)
			}
		}
	}
}

// TestStream has a stream pass its budget after some answers.
func TestStream(t *testing.T) {
	var got reports
	client := serve(t, memgrpc.Options{
		Limits: []memtrace.Option{memtrace.WithLimitBytes(budget * memtrace.KiB)},
		Report: func(_ context.Context, _ string, used memgrpc.Usage) {
			got.mu.Lock()
			defer got.mu.Unlock()
			got.list = append(got.list, used)
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := watch(ctx, client, "careless 50")
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || s.Message() != passed || n < 3 || n > 5 {
		t.Errorf("%d answers, then %v", n, err)
	}
	if u := got.take(t); u.Limit == nil || u.Bytes < budget<<10 || u.Bytes > (budget+80)<<10 {
		t.Errorf("%+v", u)
	}
	// The handler does not see a message that is larger than the budget.
	n, err = watch(ctx, client, "missing 0 "+strings.Repeat("x", 2*budget<<10))
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || s.Message() != passed || n != 0 {
		t.Errorf("%d answers, then %v", n, err)
	}
	if u := got.take(t); u.Limit == nil || u.Bytes < 2*budget<<10 {
		t.Errorf("%+v", u)
	}
	// The client ends the stream.
	ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
	stream, err := client.Watch(ctx, &health.HealthCheckRequest{Service: "plain 0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Error(err)
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Canceled && status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	got.take(t)
}

// TestFailed gives requests an invalid limit: they are handled without one.
func TestFailed(t *testing.T) {
	var failures reports
	client := serve(t, memgrpc.Options{
		Limits: []memtrace.Option{memtrace.WithLimitBytes(-1)},
		Report: func(context.Context, string, memgrpc.Usage) { t.Error("a report of a request that is not traced") },
		Failed: func(_ context.Context, _ string, err error) {
			if err == nil || !strings.Contains(err.Error(), "must not be negative") {
				t.Error(err)
			}
			failures.mu.Lock()
			defer failures.mu.Unlock()
			failures.list = append(failures.list, memgrpc.Usage{})
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if n, err := watch(ctx, client, "plain 10 ."); n != 1 || err != nil {
		t.Error(n, err)
	}
	failures.take(t)
	_, err := client.Check(ctx, &health.HealthCheckRequest{Service: "plain 10"})
	if status.Code(err) != codes.Internal || status.Convert(err).Message() != "no trace in the context" {
		t.Error(err)
	}
	failures.take(t)
}
