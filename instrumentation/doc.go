// Package instrumentation makes OpenTelemetry spans of the requests of running Go programs, without a change to these programs.
//
// The central type is [Instrumentation]. It finds processes by their IDs or by the path of their executable, attaches to each with
// package loupe, and passes the spans to a function, to a TracerProvider of the OpenTelemetry API, or to the exporters that the
// OTEL_* environment variables of the OpenTelemetry specification select. It waits for executables that are not running yet, and
// follows their restarts.
//
// # Environment variables
//
// With [WithEnv], these variables select the processes, unless [WithPID] or [WithExe] is used:
//
//	OTEL_GO_AUTO_TARGET_EXE  path of an executable, as for WithExe
//	OTEL_GO_AUTO_TARGET_PID  process IDs, separated by commas
//
// OTEL_GO_AUTO_INCLUDE_DB_STATEMENT omits the text of database statements if it is false. By default spans have it, with question marks
// in the place of literals. OTEL_GO_AUTO_PARSE_DB_STATEMENT omits what is found in this text if it is false: the operation and the table.
// Unlike here, in the Go agent of OpenTelemetry both must be set to true for these attributes.
//
// These variables of the specification configure the export:
//
//	OTEL_SDK_DISABLED                      true disables the export; if spans have no other destination, no process is observed
//	OTEL_SERVICE_NAME                      service.name, unless WithServiceName is used; by default the name of the executable
//	OTEL_RESOURCE_ATTRIBUTES               attributes of the resource
//	OTEL_TRACES_EXPORTER                   otlp (the default), console or none
//	OTEL_METRICS_EXPORTER                  the same, for the durations of requests
//	OTEL_EXPORTER_OTLP_PROTOCOL            http/protobuf (the default) or grpc
//	OTEL_EXPORTER_OTLP_ENDPOINT            http://localhost:4318 or, with grpc, http://localhost:4317
//	OTEL_EXPORTER_OTLP_*                   headers, timeout, compression, certificates
//	OTEL_TRACES_SAMPLER                    parentbased_always_on (the default) and others, unless WithSampler is used
//	OTEL_TRACES_SAMPLER_ARG                the ratio of the sampler
//	OTEL_PROPAGATORS                       none, or a list without tracecontext: requests that the processes send get no traceparent header;
//	                                       a list without baggage: they carry no baggage on
//	OTEL_BSP_*, OTEL_METRIC_EXPORT_*       times and sizes of batches
//	OTEL_ATTRIBUTE_*, OTEL_SPAN_ATTRIBUTE_* limits of attributes
//	OTEL_LOG_LEVEL                         debug, info (the default), warn or error, unless WithLogger is used
//
// With [loupe.EngineInline], requests that the processes send carry the contexts of exported spans: see loupe.Propagation.
//
// The resource of exported spans describes the process: service.name, process.pid, process.executable.path, host.name and so on.
package instrumentation
