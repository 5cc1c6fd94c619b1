//go:build sdk
// +build sdk

package main

import (
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// install installs an SDK.
func install() string {
	otel.SetTracerProvider(sdk.NewTracerProvider())
	return "sdk"
}
