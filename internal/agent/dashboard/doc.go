// Package dashboard describes the Grafana dashboards of the node agent: the fleet, one target, and the agent itself.
//
// The central type is [Dashboard]. [All] returns the dashboards, and [Dashboard.JSON] returns the form that Grafana imports. The queries
// name the metrics of package metric; a test checks that. Command gen writes the files of deploy/grafana.
package dashboard

//go:generate go run ./gen
