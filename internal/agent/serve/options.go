package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
)

// Options are the settings of a [Server].
type Options struct {
	Metrics string // address of /metrics, such as ":9090"; empty: not served
	Health  string // address of /healthz and /readyz; it may be that of Metrics; empty: not served
	Pprof   string // address of /debug/pprof/ of the agent itself; empty: not served

	// WebConfig is the path of a configuration file of Prometheus' exporter toolkit, with TLS, client certificates and users with
	// passwords. It applies to Metrics and Pprof. It is read at each request, so its changes need no restart. Empty: plain HTTP.
	WebConfig string
	// SecureHealth applies WebConfig to Health, too. Health at the address of Metrics always has the configuration of Metrics.
	SecureHealth bool

	Collector *Collector
	// CreatedSamples adds a series with the suffix _created to each counter and histogram in the OpenMetrics format. The protobuf format
	// has start times without it.
	CreatedSamples bool
	MaxScrapes     int // at the same time; others receive status 503. 0 means 4
	MaxConnections int // for each address; others wait. 0 means 64

	// Alive returns nil if the agent works: its loops turn. nil: it always works.
	Alive func() error
	// Ready returns what prevents the agent from working as configured, a line for each reason. nil: nothing ever does.
	Ready func() []string

	Logger *slog.Logger // nil: messages are discarded
}

// Check returns what prevents a server with these options from starting, except whether it can listen: an invalid web configuration,
// and a Pprof address that is not permitted.
func (o *Options) Check() error {
	if o.WebConfig != "" {
		if err := web.Validate(o.WebConfig); err != nil {
			return fmt.Errorf("cannot use the web configuration %s: %w", o.WebConfig, oneLine(err))
		}
	}
	if o.Metrics != "" && o.Collector == nil {
		return errors.New("cannot serve metrics: no collector")
	}
	if o.Pprof == "" {
		return nil
	}
	if o.Pprof == o.Metrics || o.Pprof == o.Health {
		return fmt.Errorf("cannot serve pprof at %s: metrics or health checks have the same address; use another one", o.Pprof)
	}
	addr, err := net.ResolveTCPAddr("tcp", o.Pprof)
	if err != nil {
		return fmt.Errorf("cannot serve pprof at %s: %w", o.Pprof, err)
	}
	if addr.IP.IsLoopback() {
		return nil
	}
	if ok, err := authenticates(o.WebConfig); err != nil || !ok {
		return fmt.Errorf("cannot serve pprof at %s: other machines can connect to it, and the web configuration does not authenticate them "+
			"(use a loopback address, or configure basic_auth_users or client_auth_type: RequireAndVerifyClientCert)", o.Pprof)
	}
	return nil
}

// authenticates reports whether a web configuration refuses clients without a password or a verified certificate.
func authenticates(path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	var c struct {
		Users map[string]string `yaml:"basic_auth_users"`
		TLS   struct {
			ClientAuth string `yaml:"client_auth_type"`
		} `yaml:"tls_server_config"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return false, err
	}
	return len(c.Users) > 0 || c.TLS.ClientAuth == "RequireAndVerifyClientCert", nil
}
