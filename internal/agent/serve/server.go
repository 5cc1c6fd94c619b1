package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"
)

// A Server serves what its [Options] say until it is closed.
type Server struct {
	log       *slog.Logger
	endpoints []*endpoint
	serving   sync.WaitGroup
	failed    chan error
}

// An endpoint is an address, and what is served there.
type endpoint struct {
	what     string // "metrics"
	address  string // as configured
	config   string // path of the web configuration
	server   *http.Server
	listener net.Listener
}

// Start starts a server. When it returns, the server accepts connections at all addresses. An error is one line that says which address
// or file is wrong, and nothing is served then.
func Start(o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &Server{log: o.Logger, failed: make(chan error, 3)} // one for each endpoint
	if s.log == nil {
		s.log = discard
	}
	if err := s.plan(&o); err != nil {
		return nil, err
	}
	for i, e := range s.endpoints {
		if err := e.listen(o.MaxConnections); err != nil {
			for _, other := range s.endpoints[:i] {
				other.listener.Close()
			}
			return nil, err
		}
	}
	for _, e := range s.endpoints {
		s.log.Info("serving "+e.what, "address", e.listener.Addr().String(), "web_config", e.config)
		s.serving.Go(func() { s.serve(e) })
	}
	return s, nil
}

// plan makes the endpoints.
func (s *Server) plan(o *Options) error {
	if o.Metrics != "" {
		h, err := metricsHandler(o, s.log)
		if err != nil {
			return err
		}
		m, what := routes{"/metrics": h}, "metrics"
		if o.Health == o.Metrics {
			healthRoutes(o, m)
			what = "metrics and health checks"
		}
		s.add(what, o.Metrics, o.WebConfig, m)
	}
	if o.Health != "" && o.Health != o.Metrics {
		config := ""
		if o.SecureHealth {
			config = o.WebConfig
		}
		m := routes{}
		healthRoutes(o, m)
		s.add("health checks", o.Health, config, m)
	}
	if o.Pprof != "" {
		addr, err := net.ResolveTCPAddr("tcp", o.Pprof)
		if err != nil {
			return fmt.Errorf("cannot serve pprof at %s: %w", o.Pprof, err)
		}
		var h http.Handler = pprofRoutes()
		if !addr.IP.IsLoopback() {
			h = authenticated(o.WebConfig, h)
		}
		// The address that was checked, not its name, which could be another one now.
		s.add("pprof", addr.String(), o.WebConfig, h)
		s.endpoints[len(s.endpoints)-1].server.WriteTimeout = 10 * time.Minute // bounds the seconds of a profile
	}
	return nil
}

func (s *Server) add(what, address, config string, h http.Handler) {
	s.endpoints = append(s.endpoints, &endpoint{what: what, address: address, config: config, server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute, // more than the usual interval of scrapes
		MaxHeaderBytes:    16 << 10,
		// Failed handshakes and the like are the clients' errors; anyone who can connect can cause them.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}})
}

// listen opens the address.
func (e *endpoint) listen(connections int) error {
	if connections <= 0 {
		connections = 64
	}
	l, err := net.Listen("tcp", e.address)
	if err != nil {
		hint := ""
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			hint = " (another process listens there; use another address)"
		case errors.Is(err, os.ErrPermission):
			hint = " (ports below 1024 require CAP_NET_BIND_SERVICE; use another port)"
		}
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // without the address, which the message has already
		}
		return fmt.Errorf("cannot serve %s at %s: %w%s", e.what, e.address, oneLine(err), hint)
	}
	e.listener = netutil.LimitListener(l, connections)
	return nil
}

// serve serves an endpoint until the server is closed.
func (s *Server) serve(e *endpoint) {
	flags := &web.FlagConfig{WebConfigFile: &e.config}
	err := web.Serve(e.listener, e.server, flags, slog.New(warnings{s.log.Handler()}))
	e.listener.Close() // web.Serve does not close it if it cannot read the configuration
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.failed <- fmt.Errorf("cannot serve %s at %s: %w", e.what, e.address, oneLine(err))
	}
}

// Failed returns a channel that receives an error when the server stops to serve an address without having been closed.
func (s *Server) Failed() <-chan error { return s.failed }

// Addresses returns the addresses at which the server listens: that of metrics, of health checks and of pprof, without those that
// are not served.
func (s *Server) Addresses() []string {
	var list []string
	for _, e := range s.endpoints {
		list = append(list, e.listener.Addr().String())
	}
	return list
}

// Close ends the server. It waits for requests that are being answered until the context ends, and then closes their connections. When
// it returns, the addresses are free.
func (s *Server) Close(ctx context.Context) error {
	errs := make([]error, len(s.endpoints))
	var wg sync.WaitGroup
	for i, e := range s.endpoints {
		wg.Go(func() {
			if err := e.server.Shutdown(ctx); err != nil {
				errs[i] = fmt.Errorf("closed %s at %s before all requests were answered: %w", e.what, e.address, err)
				e.server.Close()
			}
			e.listener.Close()
		})
	}
	wg.Wait()
	s.serving.Wait()
	return errors.Join(errs...)
}

// warnings is a handler for messages that are at least warnings. The exporter toolkit reports at level info what Start has reported.
type warnings struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
