package otlp

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// SetLog makes the OpenTelemetry SDK log its own errors to log. By default it writes them to stderr, for example if the
// shutdown of a provider interrupts an export. It applies to the whole process, so it is for a main function.
func SetLog(log *slog.Logger) {
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("error of the OpenTelemetry SDK", "error", oneLine(err)) }))
}

// A Health reports when an exporter begins to fail, and when it succeeds again. Failures in between are reported at level debug.
type Health struct {
	what string // the items that it exports, such as spans
	log  *slog.Logger

	mu    sync.Mutex
	since time.Time // when it began to fail; zero if it does not
	err   string    // the last error
	lost  uint64    // items that were not exported since then
}

// NewHealth returns the health of an exporter that has not failed. what is the plural of the items that it exports.
func NewHealth(what string, log *slog.Logger) *Health { return &Health{what: what, log: log} }

// Failed reports the failure to export a number of items.
func (h *Health) Failed(err error, items int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	level := slog.LevelDebug
	if h.since.IsZero() {
		level, h.since, h.lost = slog.LevelWarn, time.Now(), 0
	}
	h.lost += uint64(items)
	h.err = oneLine(err)
	h.log.Log(context.Background(), level, "cannot export "+h.what, "error", h.err)
}

// Succeeded reports that an export has succeeded.
func (h *Health) Succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.since.IsZero() {
		h.since = time.Time{}
		h.log.Info("exporting "+h.what+" again", "lost", h.lost)
	}
}

// Failing returns since when the exporter fails, and its last error in one line. ok is false if it does not fail.
func (h *Health) Failing() (since time.Time, err string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		return time.Time{}, "", false
	}
	return h.since, h.err, true
}

// oneLine returns an error's text as one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
