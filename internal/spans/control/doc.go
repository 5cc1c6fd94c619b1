// Package control exports request spans and metrics of their durations to OpenTelemetry back ends.
//
// The central type is [Controller].
package control
