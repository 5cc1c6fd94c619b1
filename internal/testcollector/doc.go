// Package testcollector runs back ends that receive spans and metrics by OTLP, for tests of what Loupe exports.
//
// [Receiver] is a back end in the test process. It is fast, can be stopped and started again, and can reject spans.
// [Collector] is the OpenTelemetry Collector in a process of its own. It shows that other programs accept what was sent.
// Both return what they have received as values of type [Span].
package testcollector
