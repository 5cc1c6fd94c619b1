package realtarget

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
)

// planEtcd runs an etcd of one member. The load are writes and reads by its
// JSON gateway, which is a gRPC client inside the process.
func planEtcd(at *site) (*plan, error) {
	base, peer := "http://"+at.addrs[0], "http://"+at.addrs[1]
	return &plan{
		args: []string{
			"--name=one", "--data-dir=" + filepath.Join(at.dir, "data"),
			"--listen-client-urls=" + base, "--advertise-client-urls=" + base,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=one=" + peer,
			"--enable-pprof",
		},
		pprof:   base + "/debug/pprof",
		metrics: base + "/metrics",
		connect: webUsers(func(n int) ask {
			key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "key-%d", n/2%1000))
			return pick(n,
				ask{method: http.MethodPost, url: base + "/v3/kv/put",
					body: fmt.Sprintf(`{"key":%q,"value":%q}`, key, key), want: `"revision"`},
				ask{method: http.MethodPost, url: base + "/v3/kv/range", body: fmt.Sprintf(`{"key":%q}`, key), want: `"revision"`})
		}),
		serves: at.addrs[0],
		guests: 3, loaders: 4,
	}, nil
}
