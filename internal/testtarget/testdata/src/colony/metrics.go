//go:build go1.16
// +build go1.16

package main

import (
	"fmt"
	"math"
	"runtime/metrics"
	"strings"
)

func histogram(args []string) string {
	s := []metrics.Sample{{Name: args[0]}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64Histogram {
		return "histogram none"
	}
	h := s[0].Value.Float64Histogram()
	text := &strings.Builder{}
	for i, n := range h.Counts {
		if n > 0 {
			fmt.Fprintf(text, " %d:%d", int64(math.Round(h.Buckets[i]*1e9)), n)
		}
	}
	return "histogram" + text.String()
}
