//go:build go1.25

package main

import (
	"os"
	"runtime/trace"
)

// recordFlight records with a flight recorder.
func recordFlight(path string) {
	file, err := os.Create(path)
	check(err)
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	check(recorder.Start())
	work()
	_, err = recorder.WriteTo(file)
	check(err)
	recorder.Stop()
	check(file.Close())
}
