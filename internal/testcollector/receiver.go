package testcollector

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	colllogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	colltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // the receiver accepts compressed requests
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/loupe-go/loupe/internal/english"
)

// A Receiver is a back end in the test process.
type Receiver struct {
	HTTP, GRPC string // addresses, as in "127.0.0.1:4318"

	tb     testing.TB
	config *tls.Config // nil without TLS
	stop   func()

	mu       sync.Mutex
	answer   func(spans []Span) (rejected int, message string, err error)
	respond  func(s Signal) (rejected int64, err error)
	spans    []Span
	metrics  []*metricspb.ResourceMetrics
	logs     []*logspb.ResourceLogs
	profiles []pprofile.Profiles
	headers  []http.Header
}

// Receive starts a receiver, which stops when the test ends. config is the configuration of TLS, or nil.
func Receive(tb testing.TB, config *tls.Config) *Receiver {
	tb.Helper()
	r := &Receiver{tb: tb, config: config, stop: func() {}, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0"}
	r.Start()
	tb.Cleanup(r.Stop)
	return r
}

// Start starts a receiver again after Stop, with the same addresses.
func (r *Receiver) Start() {
	r.tb.Helper()
	plain := listen(r.tb, &r.HTTP)
	server := &http.Server{Handler: http.HandlerFunc(r.serveHTTP), ErrorLog: log.New(io.Discard, "", 0)} // clients may refuse the certificate
	if r.config != nil {
		plain = tls.NewListener(plain, r.config)
	}
	var opts []grpc.ServerOption
	if r.config != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(r.config)))
	}
	calls := grpc.NewServer(opts...)
	colltracepb.RegisterTraceServiceServer(calls, traceService{r: r})
	collmetricspb.RegisterMetricsServiceServer(calls, metricsService{r: r})
	colllogspb.RegisterLogsServiceServer(calls, logsService{r: r})
	pprofileotlp.RegisterGRPCServer(calls, profilesService{r: r})
	remote := listen(r.tb, &r.GRPC)
	var both sync.WaitGroup
	both.Go(func() { _ = server.Serve(plain) }) // returns when Stop is called
	both.Go(func() { _ = calls.Serve(remote) })
	r.stop = sync.OnceFunc(func() {
		server.Close()
		calls.Stop()
		both.Wait()
	})
}

// Stop closes all connections. Requests are refused until Start is called.
func (r *Receiver) Stop() { r.stop() }

// Answer sets what is done with the spans of each request: how many are rejected with a message, or the error of the request.
func (r *Receiver) Answer(f func(spans []Span) (rejected int, message string, err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

// Spans returns the spans that were accepted.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Metrics returns the metrics of all requests.
func (r *Receiver) Metrics() []*metricspb.ResourceMetrics {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.metrics)
}

// Headers returns the headers of all requests. Names of gRPC are in lower case.
func (r *Receiver) Headers() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.headers)
}

// listen listens at an address, and sets it to the one that was chosen.
func listen(tb testing.TB, addr *string) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		tb.Fatal(err)
	}
	*addr = l.Addr().String()
	return l
}

// take records the spans of a request.
func (r *Receiver) take(header http.Header, request *colltracepb.ExportTraceServiceRequest) (*colltracepb.ExportTraceServiceResponse, error) {
	spans := fromProto(request.GetResourceSpans())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = append(r.headers, header)
	response := &colltracepb.ExportTraceServiceResponse{}
	if r.answer != nil {
		rejected, message, err := r.answer(spans)
		if err != nil {
			return nil, err
		}
		if rejected > 0 || message != "" {
			response.PartialSuccess = &colltracepb.ExportTracePartialSuccess{RejectedSpans: int64(rejected), ErrorMessage: message}
		}
		spans = spans[rejected:]
	}
	r.spans = append(r.spans, spans...)
	return response, nil
}

func (r *Receiver) serveHTTP(w http.ResponseWriter, req *http.Request) {
	response, err := r.serve(req)
	if err != nil {
		code := http.StatusServiceUnavailable
		if refused := HTTPStatus(0); errors.As(err, &refused) {
			code = int(refused)
		}
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(response) // the client may be gone
}

// serve returns the response to a request of OTLP by HTTP.
func (r *Receiver) serve(req *http.Request) ([]byte, error) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = z
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	switch {
	case req.Header.Get("Content-Type") != "application/x-protobuf":
		return nil, errors.New("not protobuf: " + req.Header.Get("Content-Type"))
	case strings.HasSuffix(req.URL.Path, "/v1/traces"):
		request := &colltracepb.ExportTraceServiceRequest{}
		if err := proto.Unmarshal(data, request); err != nil {
			return nil, err
		}
		response, err := r.take(req.Header, request)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(response)
	case strings.HasSuffix(req.URL.Path, "/v1/metrics"):
		request := &collmetricspb.ExportMetricsServiceRequest{}
		if err := proto.Unmarshal(data, request); err != nil {
			return nil, err
		}
		return marshal(r.takeMetrics(req.Header, request))
	case strings.HasSuffix(req.URL.Path, "/v1/logs"):
		request := &colllogspb.ExportLogsServiceRequest{}
		if err := proto.Unmarshal(data, request); err != nil {
			return nil, err
		}
		return marshal(r.takeLogs(req.Header, request))
	case strings.HasSuffix(req.URL.Path, "/v1development/profiles"):
		request := pprofileotlp.NewExportRequest()
		if err := request.UnmarshalProto(data); err != nil {
			return nil, err
		}
		response, err := r.takeProfiles(req.Header, request)
		if err != nil {
			return nil, err
		}
		return response.MarshalProto()
	}
	return nil, errors.New("unknown path " + req.URL.Path)
}

type traceService struct {
	colltracepb.UnimplementedTraceServiceServer
	r *Receiver
}

func (s traceService) Export(ctx context.Context, request *colltracepb.ExportTraceServiceRequest) (*colltracepb.ExportTraceServiceResponse, error) {
	return s.r.take(headerOf(ctx), request)
}

// headerOf returns the header of a call.
func headerOf(ctx context.Context) http.Header {
	md, _ := metadata.FromIncomingContext(ctx)
	return http.Header(md)
}

// patience is how long WaitFor waits on a machine that is busy.
const patience = time.Minute

// WaitFor waits until a number of spans was received and returns them.
func WaitFor(tb testing.TB, n int, received func() []Span) []Span {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		spans := received()
		if len(spans) >= n {
			return spans
		}
		if time.Now().After(deadline) {
			tb.Fatalf("received %d of %s", len(spans), english.Count(n, "span"))
		}
	}
}
