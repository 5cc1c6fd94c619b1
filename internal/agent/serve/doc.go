// Package serve is what a node agent serves by HTTP: metrics for Prometheus, checks of its health, and profiles of the agent itself.
//
// The central types are [Collector], which converts the points of package metric to those of Prometheus' client library, and [Server],
// which serves them. The data comes from a [Source], usually the agent's targets. Package serve changes nothing in the agent.
//
// Values of labels come from the observed programs, which are not trusted. They are bounded and escaped, the number of series of a target
// is bounded, and a point that Prometheus would refuse is left out and counted. It never makes a scrape fail.
package serve
