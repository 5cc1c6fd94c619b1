// Package otlp sends finished spans, and the durations of operations, to OpenTelemetry back ends.
//
// The central types are [Config], which is read from the OTEL_* environment variables of the OpenTelemetry specification, and
// [Queue], which takes finished spans and exports them in [Batches]. The caller makes the spans. [Durations] records how long
// operations take, as the metrics that the semantic conventions define.
//
// # Environment variables
//
// [Read] gets the variables from a function, so they can be those of this process or of another one. The exporters of the
// OpenTelemetry SDK receive every setting as an option. They would otherwise read variables of this process, which an option
// overrides. So a variable that is listed here is read by Read alone:
//
//	OTEL_SDK_DISABLED                     true disables all exporters
//	OTEL_SERVICE_NAME                     service.name; see Config.Resource
//	OTEL_RESOURCE_ATTRIBUTES              attributes of the resource
//	OTEL_TRACES_EXPORTER                  otlp (the default), console or none; a list is separated by commas
//	OTEL_METRICS_EXPORTER                 the same
//	OTEL_EXPORTER_OTLP_PROTOCOL           http/protobuf (the default) or grpc
//	OTEL_EXPORTER_OTLP_ENDPOINT           http://localhost:4318 or, with grpc, http://localhost:4317
//	OTEL_EXPORTER_OTLP_INSECURE           with grpc and an endpoint without http:// or https://: do not use TLS
//	OTEL_EXPORTER_OTLP_HEADERS            headers of each request
//	OTEL_EXPORTER_OTLP_TIMEOUT            of an export with its retries, in milliseconds: 10000; 0 is no limit
//	OTEL_EXPORTER_OTLP_COMPRESSION        gzip or none (the default)
//	OTEL_EXPORTER_OTLP_CERTIFICATE        file: certificates of authorities that the server's certificate is checked with
//	OTEL_EXPORTER_OTLP_CLIENT_KEY         file: the client's key
//	OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE file: the client's certificate
//	OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE        cumulative (the default), delta or lowmemory
//	OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION explicit_bucket_histogram (the default) or
//	                                      base2_exponential_bucket_histogram
//	OTEL_TRACES_SAMPLER                   parentbased_always_on (the default), parentbased_always_off, parentbased_traceidratio,
//	                                      always_on, always_off or traceidratio
//	OTEL_TRACES_SAMPLER_ARG               the ratio, 0 to 1: 1
//	OTEL_BSP_SCHEDULE_DELAY               how long a span waits for a batch to become complete, in milliseconds: 5000
//	OTEL_BSP_EXPORT_TIMEOUT               of exporting a batch, in milliseconds: 30000; 0 is no limit
//	OTEL_BSP_MAX_QUEUE_SIZE               maximum number of spans in the queue: 65536
//	OTEL_BSP_MAX_EXPORT_BATCH_SIZE        maximum number of spans in a batch: 512
//	OTEL_METRIC_EXPORT_INTERVAL           between two exports of metrics, in milliseconds: 60000
//	OTEL_METRIC_EXPORT_TIMEOUT            of an export of metrics, in milliseconds: 30000; 0 is no limit
//	OTEL_PROPAGATORS                      tracecontext, baggage (the default is both) or none
//	OTEL_LOG_LEVEL                        debug, info (the default), warn or error
//	OTEL_ATTRIBUTE_COUNT_LIMIT            maximum number of attributes: 128
//	OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT     maximum length of an attribute's text, in characters: no limit
//	OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT   the same for spans, which have precedence
//
// Each variable OTEL_EXPORTER_OTLP_X, except the two for metrics alone, also exists as OTEL_EXPORTER_OTLP_TRACES_X and
// OTEL_EXPORTER_OTLP_METRICS_X, which have precedence for their signal. A general endpoint of http/protobuf is extended by
// v1/traces or v1/metrics, an endpoint of one signal is used as it is.
//
// Read also reads the variables of the signals [Logs] and [Profiles] if asked to: OTEL_LOGS_EXPORTER and OTEL_PROFILES_EXPORTER (otlp
// or none), OTEL_EXPORTER_OTLP_LOGS_X and OTEL_EXPORTER_OTLP_PROFILES_X, and OTEL_BLRP_X for the queue of log records as OTEL_BSP_X for
// that of spans, with defaults of 1000 for the delay and 2048 for the size. The path of profiles is v1development/profiles.
// [Config.Connection] returns how to reach their endpoints; package otlp has no exporters of them.
//
// The specification's default of OTEL_BSP_MAX_QUEUE_SIZE is 2048. Loupe's is larger because one queue has all spans of a
// service, and a span is a few hundred bytes to a few kilobytes in size.
//
// As the specification requires, an empty variable counts as unset, and an invalid number or boolean value is ignored with a
// warning. Unlike in the specification, an unknown exporter, protocol, sampler or propagator, an invalid ratio and an invalid
// endpoint are errors, because spans would be missing or go elsewhere without them.
//
// Variables for proxies, such as HTTPS_PROXY, are those of this process. The OpenTelemetry SDK also reads variables of this
// process for experimental features, which begin with OTEL_GO_X_.
package otlp
