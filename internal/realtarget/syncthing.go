package realtarget

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// syncthingConfig is a configuration without anything that would leave loopback.
// Its parameters are the addresses of the web interface and of the protocol, and
// the folder that it watches.
const syncthingConfig = `<configuration version="35">
<gui enabled="true" tls="false"><address>%[1]s</address><apikey>key</apikey></gui>
<folder id="files" label="files" path=%[3]q type="sendreceive" rescanIntervalS="3600" fsWatcherEnabled="true"></folder>
<options>
<listenAddress>tcp://%[2]s</listenAddress>
<globalAnnounceEnabled>false</globalAnnounceEnabled>
<localAnnounceEnabled>false</localAnnounceEnabled>
<relaysEnabled>false</relaysEnabled>
<natEnabled>false</natEnabled>
<urAccepted>-1</urAccepted>
<crashReportingEnabled>false</crashReportingEnabled>
<autoUpgradeIntervalH>0</autoUpgradeIntervalH>
<startBrowser>false</startBrowser>
<setLowPriority>false</setLowPriority>
</options>
</configuration>
`

// planSyncthing runs a Syncthing with one folder and no other device. The load
// are scans of the folder and questions to its REST interface.
func planSyncthing(at *site) (*plan, error) {
	home, folder := filepath.Join(at.dir, "home"), filepath.Join(at.dir, "folder")
	for _, dir := range []string{home, folder, filepath.Join(folder, ".stfolder")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint("file", i)), make([]byte, 10_000), 0o644); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf(syncthingConfig, at.addrs[0], at.addrs[1], folder)
	if err := os.WriteFile(filepath.Join(home, "config.xml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	base := "http://" + at.addrs[0] + "/rest"
	key := http.Header{"X-Api-Key": {"key"}}
	return &plan{
		args: []string{"serve", "--home=" + home, "--no-browser", "--no-upgrade", "--no-restart", "--skip-port-probing"},
		// Without STMONITORED the process would only watch over another one.
		env:   []string{"STMONITORED=yes", "STPROFILER=" + at.addrs[2]},
		pprof: "http://" + at.addrs[2] + "/debug/pprof",
		connect: webUsers(func(n int) ask {
			return pick(n,
				ask{method: http.MethodGet, url: base + "/system/status", header: key, want: `"goroutines"`},
				ask{method: http.MethodPost, url: base + "/db/scan?folder=files", header: key},
				ask{method: http.MethodGet, url: base + "/db/browse?folder=files", header: key, want: "file99"})
		}),
		guests: 3, loaders: 3,
	}, nil
}
