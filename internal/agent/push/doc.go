// Package push sends what the node agent learns to an OpenTelemetry back end, by OTLP: metrics, spans, log records and profiles of many
// processes, each with a resource of its own. Profiles that the back end does not take become files in a directory of bounded size.
//
// The central type is [Pusher]. It asks for metrics at an interval, and passes everything else through queues of bounded size. No call
// waits for the back end. What is not exported is counted, see [Pusher.Stats].
//
// # Configuration
//
// [Options] are the defaults of the variables that package otlp documents, which have precedence. So a variable for one signal, such as
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, has precedence over one for all signals, which has precedence over Options. A signal is exported if
// an endpoint is configured for it, or its variable OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER, OTEL_LOGS_EXPORTER or
// OTEL_PROFILES_EXPORTER is set and not none. OTEL_SERVICE_NAME names the agent itself; OTEL_RESOURCE_ATTRIBUTES are attributes of all
// resources.
//
// The queue of spans is smaller than that of package otlp: 16384.
//
// Metrics of targets are cumulative, and their histograms exponential, whatever the variables for metrics say. Those apply to the
// durations of requests.
package push
