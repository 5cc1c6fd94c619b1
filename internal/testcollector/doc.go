// Package testcollector runs back ends that receive spans and other signals by OTLP, for tests of what Loupe exports.
//
// [Receiver] is a back end in the test process. It is fast, can be stopped and started again, and can reject spans.
// [Collector] is the OpenTelemetry Collector in a process of its own. It shows that other programs accept what was sent. It prints what
// it has received, or sends it on to a Receiver, whose values a test can compare.
// Both return the spans that they have received as values of type [Span].
package testcollector
