package agent

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/agent/push"
	"github.com/loupe-go/loupe/internal/agent/target"
	"github.com/loupe-go/loupe/internal/version"
)

// newPusher returns what sends by OTLP, as the configuration says.
func (a *Agent) newPusher(ctx context.Context, c *config.Config) (*push.Pusher, error) {
	o := &c.Output.OTLP
	headers := map[string]string{}
	for k, v := range o.Headers {
		headers[k] = string(v)
	}
	signals := []push.Signal{}
	for _, s := range push.Signals {
		if c.Sends(string(s)) {
			signals = append(signals, s)
		}
	}
	host, _ := os.Hostname() // unknown otherwise
	p, warnings, err := push.New(ctx, push.Options{Protocol: o.Protocol, Endpoint: o.Endpoint, Headers: headers, CAFile: o.TLS.CAFile, CertFile: o.TLS.CertFile,
		KeyFile: o.TLS.KeyFile, Insecure: o.TLS.Insecure, BatchSize: o.BatchSize, FlushInterval: o.FlushInterval, Signals: signals,
		Directory: c.Output.Profiles.Directory, MaxBytes: int64(c.Output.Profiles.MaxBytes), Metrics: a.groups, Version: version.Read().Version, Host: host,
		Lookup: c.OTEL, Log: a.log})
	for _, w := range warnings {
		a.log.Warn(w)
	}
	return p, err
}

// closePusher sends what is left.
func closePusher(p *push.Pusher, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		log.Warn("not everything was exported", "err", err)
	}
}

// alertOf converts an anomaly to a log record.
func alertOf(t target.Alert) push.Alert {
	attrs := []attribute.KeyValue{attribute.Float64("loupe.alert.value", t.Value)}
	if t.Site != "" {
		attrs = append(attrs, attribute.String("loupe.goroutine.created_by", t.Site))
	}
	if t.Recording != "" {
		attrs = append(attrs, attribute.String("loupe.recording", t.Recording))
	}
	return push.Alert{Name: "loupe.alert." + t.Name, At: t.At.UnixNano(), Level: slog.LevelWarn, Text: t.Text, Attributes: attrs}
}

// goroutineSpanOf converts a span of a goroutine.
func goroutineSpanOf(s target.GoroutineSpan) push.GoroutineSpan {
	var attrs []attribute.KeyValue
	if s.Site != "" {
		attrs = append(attrs, attribute.String("loupe.goroutine.created_by", s.Site))
	}
	if s.At != "" {
		attrs = append(attrs, attribute.String("code.function.name", s.At))
	}
	return push.GoroutineSpan{Goroutine: s.G, Name: s.Name, Start: s.Start, End: s.End, Attributes: attrs, Parent: s.Parent}
}

// changesOutput reports whether changes concern what leaves the agent by OTLP and as files.
func changesOutput(changes []config.Change) bool {
	for _, c := range changes {
		if strings.HasPrefix(c.Path, "output.otlp") || strings.HasPrefix(c.Path, "output.profiles") {
			return true
		}
	}
	return false
}
