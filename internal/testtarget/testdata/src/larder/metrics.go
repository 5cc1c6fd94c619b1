//go:build go1.16
// +build go1.16

package main

import (
	"math"
	"runtime/metrics"
)

var samples []metrics.Sample

func prepareMetrics() {
	for _, d := range metrics.All() {
		if d.Kind == metrics.KindUint64 || d.Kind == metrics.KindFloat64 {
			samples = append(samples, metrics.Sample{Name: d.Name})
		}
	}
	readMetrics()
}

func readMetrics() { metrics.Read(samples) }

func appendMetrics() {
	for i := range samples {
		switch v := &samples[i].Value; v.Kind() {
		case metrics.KindUint64:
			field(samples[i].Name, v.Uint64())
		case metrics.KindFloat64:
			field(samples[i].Name, math.Float64bits(v.Float64()))
		}
	}
}
