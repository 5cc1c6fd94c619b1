package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/otlp"
)

// A sender sends profiles by OTLP, for which the SDK has no exporter. It repeats requests as the SDK's exporters of other signals do.
type sender struct {
	*otlp.Connection
	conn   *grpc.ClientConn // nil with HTTP
	client pprofileotlp.GRPCClient
}

func newSender(c *otlp.Connection) (*sender, error) {
	s := &sender{Connection: c}
	if c.GRPC {
		conn, err := grpc.NewClient(c.Target, c.Dial...)
		if err != nil {
			return nil, err
		}
		s.conn, s.client = conn, pprofileotlp.NewGRPCClient(conn)
	}
	return s, nil
}

// close closes the connection.
func (s *sender) close() {
	if s.conn != nil {
		_ = s.conn.Close() // there are no calls that could fail
	} else {
		s.Client.CloseIdleConnections()
	}
}

// send sends a request, and repeats it until the back end accepts it, the error is permanent, or the timeout has passed.
func (s *sender) send(ctx context.Context, request pprofileotlp.ExportRequest) error {
	ctx, cancel := otlp.Within(ctx, s.Timeout)
	defer cancel()
	began := time.Now()
	for wait := s.Retry.InitialInterval; ; wait = min(2*wait, s.Retry.MaxInterval) {
		response, err := s.once(ctx, request)
		if err == nil {
			if n := response.PartialSuccess().RejectedProfiles(); n > 0 {
				return fmt.Errorf("the back end rejected %s: %s", english.Count(n, "profile"), response.PartialSuccess().ErrorMessage())
			}
			return nil
		}
		if !s.Retry.Enabled || !temporary(err) || time.Since(began) > s.Retry.MaxElapsedTime {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *sender) once(ctx context.Context, request pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	if s.conn == nil {
		return s.post(ctx, request)
	}
	return s.client.Export(metadata.NewOutgoingContext(ctx, metadata.New(s.Headers)), request)
}

// maxResponse is the maximum size of a response by HTTP.
const maxResponse = 1 << 20

// post sends a request by HTTP.
func (s *sender) post(ctx context.Context, request pprofileotlp.ExportRequest) (response pprofileotlp.ExportResponse, err error) {
	body, err := request.MarshalProto()
	if err != nil {
		return response, err
	}
	if s.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // a buffer has room
		_ = z.Close()
		body = b.Bytes()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return response, err
	}
	for name, value := range s.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set(pprofileotlp.DevelopmentVersionHeader, pprofileotlp.DevelopmentVersion)
	if s.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := s.Client.Do(r)
	if err != nil {
		return response, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxResponse))
	if err != nil {
		return response, err
	}
	if answer.StatusCode/100 != 2 {
		return response, &httpError{answer.StatusCode, answer.Status, string(bytes.ToValidUTF8(data[:min(len(data), 200)], []byte("?")))}
	}
	response = pprofileotlp.NewExportResponse()
	if len(data) > 0 && answer.Header.Get("Content-Type") == "application/x-protobuf" {
		err = response.UnmarshalProto(data)
	}
	return response, err
}

// An httpError is a response by HTTP that is no success.
type httpError struct {
	code           int
	status, answer string
}

func (e *httpError) Error() string { return fmt.Sprintf("%s: %q", e.status, e.answer) }

// temporary reports whether a request can be repeated after an error.
func temporary(err error) bool {
	if e := (*httpError)(nil); errors.As(err, &e) {
		return e.code == http.StatusTooManyRequests || e.code == http.StatusBadGateway || e.code == http.StatusServiceUnavailable || e.code == http.StatusGatewayTimeout
	}
	if t := (interface{ Temporary() bool })(nil); errors.As(err, &t) {
		return t.Temporary()
	}
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		return true
	}
	return false
}

// unsupported reports whether an error says that the back end does not take profiles at all.
func unsupported(err error) bool {
	if e := (*httpError)(nil); errors.As(err, &e) {
		return e.code == http.StatusNotFound || e.code == http.StatusMethodNotAllowed || e.code == http.StatusNotImplemented
	}
	return err != nil && status.Code(err) == codes.Unimplemented
}

// oneLine returns an error's text as one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
