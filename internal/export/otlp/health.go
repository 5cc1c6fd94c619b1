package otlp

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// SetLog makes the OpenTelemetry SDK log its own errors to log. By default it writes them to stderr, for example if the
// shutdown of a provider interrupts an export. It applies to the whole process, so it is for a main function.
func SetLog(log *slog.Logger) {
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("error of the OpenTelemetry SDK", "error", oneLine(err)) }))
}

// A health reports when an exporter begins to fail, and when it succeeds again. Failures in between are reported at level debug.
type health struct {
	what string // the items that it exports: spans or metrics
	log  *slog.Logger

	mu      sync.Mutex
	failing bool
	lost    uint64 // items that were not exported since the exporter began to fail
}

// failed reports the failure to export a number of items.
func (h *health) failed(err error, items int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	level := slog.LevelDebug
	if !h.failing {
		level, h.failing, h.lost = slog.LevelWarn, true, 0
	}
	h.lost += uint64(items)
	h.log.Log(context.Background(), level, "cannot export "+h.what, "error", oneLine(err))
}

// succeeded reports that an export has succeeded.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing {
		h.failing = false
		h.log.Info("exporting "+h.what+" again", "lost", h.lost)
	}
}

// oneLine returns an error's text as one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
