// Package metrictest makes the metrics of a node agent that observes a plausible fleet of programs, for tests of what serves, sends and
// shows metrics.
//
// The central type is [Fleet]. Its groups have at least one point of each row of [metric.Table], except of
// [metric.SeriesDropped], which package serve adds.
package metrictest
