//go:build collector

package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The default registry has the Go collector and that of the process.
func init() { http.Handle("/metrics", promhttp.Handler()) }
