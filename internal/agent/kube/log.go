package kube

import (
	"context"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// setGlobal makes the log of client-go a Logger. Most of client-go takes it from the context, but not all. klog permits to set it only
// before it is used.
var setGlobal sync.Once

// withLog returns a context with which client-go logs to a Logger.
func withLog(ctx context.Context, log *slog.Logger) context.Context {
	log = slog.New(debugHandler{log.Handler()}).With("from", "client-go")
	setGlobal.Do(func() { klog.SetSlogLogger(log) })
	return klog.NewContext(ctx, logr.FromSlogHandler(log.Handler()))
}

// A debugHandler makes all records those of level Debug, because the Watcher itself reports errors. It omits those of lower levels: they
// have the bodies of requests and responses.
type debugHandler struct{ slog.Handler }

func (h debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil // package logr does not ask for errors
	}
	return h.Handler.Handle(ctx, r)
}

func (h debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{h.Handler.WithAttrs(attrs)}
}

func (h debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{h.Handler.WithGroup(name)}
}
