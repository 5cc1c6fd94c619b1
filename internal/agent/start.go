package agent

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/loupe-go/loupe/internal/agent/config"
)

// Start runs an agent as a process of its own, until the context ends: it logs to stderr as the configuration says, and loads that again when
// watch reports a change.
func Start(ctx context.Context, c *config.Config, stderr io.Writer, watch func(context.Context, func(config.Reload))) error {
	level := new(slog.LevelVar)
	setLevel(level, c)
	var handler slog.Handler = slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})
	if c.Log.Format == "json" {
		handler = slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level})
	}
	log := slog.New(handler)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reloads, watched := make(chan config.Reload), make(chan struct{})
	go func() {
		defer close(watched)
		watch(ctx, func(r config.Reload) {
			if r.Config != nil {
				setLevel(level, r.Config)
			}
			select {
			case reloads <- r:
			case <-ctx.Done():
			}
		})
	}()
	err := Run(ctx, c, Options{Reloads: reloads, Log: log, Systemd: true, Drop: true, Started: func(addresses []string) {
		log.Info("observing", "node", c.Node, "serving", strings.Join(addresses, " "))
	}})
	cancel()
	<-watched
	return err
}

func setLevel(to *slog.LevelVar, c *config.Config) {
	var l slog.Level
	if l.UnmarshalText([]byte(c.Log.Level)) == nil { // the configuration was checked
		to.Set(l)
	}
}
