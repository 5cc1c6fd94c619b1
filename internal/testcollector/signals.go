package testcollector

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	colllogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collmetricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
)

// A Signal is a kind of telemetry besides spans.
type Signal string

// The signals.
const (
	Metrics  Signal = "metrics"
	Logs     Signal = "logs"
	Profiles Signal = "profiles"
)

// An HTTPStatus is an error that requests by HTTP are answered with. For others the status is 503.
type HTTPStatus int

func (s HTTPStatus) Error() string { return fmt.Sprint("status ", int(s)) }

// Respond sets the answer to requests of other signals than spans: how many of their items are rejected, or the error of the request.
// A request with rejected items counts as received.
func (r *Receiver) Respond(f func(s Signal) (rejected int64, err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = f
}

// Logs returns the log records of all requests.
func (r *Receiver) Logs() []*logspb.ResourceLogs {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.logs)
}

// Profiles returns the profiles of all requests.
func (r *Receiver) Profiles() []pprofile.Profiles {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.profiles)
}

// begin records the header of a request, and returns the answer to it. r is locked.
func (r *Receiver) begin(s Signal, header http.Header) (rejected int64, err error) {
	r.headers = append(r.headers, header)
	if r.respond == nil {
		return 0, nil
	}
	return r.respond(s)
}

func (r *Receiver) takeMetrics(header http.Header, request *collmetricspb.ExportMetricsServiceRequest) (*collmetricspb.ExportMetricsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rejected, err := r.begin(Metrics, header)
	if err != nil {
		return nil, err
	}
	r.metrics = append(r.metrics, request.GetResourceMetrics()...)
	response := &collmetricspb.ExportMetricsServiceResponse{}
	if rejected > 0 {
		response.PartialSuccess = &collmetricspb.ExportMetricsPartialSuccess{RejectedDataPoints: rejected}
	}
	return response, nil
}

func (r *Receiver) takeLogs(header http.Header, request *colllogspb.ExportLogsServiceRequest) (*colllogspb.ExportLogsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rejected, err := r.begin(Logs, header)
	if err != nil {
		return nil, err
	}
	r.logs = append(r.logs, request.GetResourceLogs()...)
	response := &colllogspb.ExportLogsServiceResponse{}
	if rejected > 0 {
		response.PartialSuccess = &colllogspb.ExportLogsPartialSuccess{RejectedLogRecords: rejected}
	}
	return response, nil
}

func (r *Receiver) takeProfiles(header http.Header, request pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	response := pprofileotlp.NewExportResponse()
	rejected, err := r.begin(Profiles, header)
	if err != nil {
		return response, err
	}
	r.profiles = append(r.profiles, request.Profiles())
	response.PartialSuccess().SetRejectedProfiles(rejected)
	return response, nil
}

// marshal encodes a response.
func marshal[M proto.Message](response M, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return proto.Marshal(response)
}

type metricsService struct {
	collmetricspb.UnimplementedMetricsServiceServer
	r *Receiver
}

func (s metricsService) Export(ctx context.Context, request *collmetricspb.ExportMetricsServiceRequest) (*collmetricspb.ExportMetricsServiceResponse, error) {
	return s.r.takeMetrics(headerOf(ctx), request)
}

type logsService struct {
	colllogspb.UnimplementedLogsServiceServer
	r *Receiver
}

func (s logsService) Export(ctx context.Context, request *colllogspb.ExportLogsServiceRequest) (*colllogspb.ExportLogsServiceResponse, error) {
	return s.r.takeLogs(headerOf(ctx), request)
}

type profilesService struct {
	*pprofileotlp.UnimplementedGRPCServer
	r *Receiver
}

func (s profilesService) Export(ctx context.Context, request pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	return s.r.takeProfiles(headerOf(ctx), request)
}
