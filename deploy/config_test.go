package deploy

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/loupe-go/loupe/internal/agent/config"
)

// TestConfigMap loads the configurations that the chart renders as the agent does.
func TestConfigMap(t *testing.T) {
	for name, text := range renderings(t) {
		objects, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, o := range objects {
			m, ok := o.(*corev1.ConfigMap)
			if !ok {
				continue
			}
			found = true
			file := filepath.Join(t.TempDir(), "config.yaml")
			write(t, file, m.Data["config.yaml"])
			loaded, err := config.Source{File: file, Environ: []string{"NODE_NAME=node-a"}}.Load()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if name == "default" && loaded.Recordings.Directory != "/var/lib/loupe/recordings" {
				t.Errorf("recordings are written to %q, which is not the volume", loaded.Recordings.Directory)
			}
		}
		if !found {
			t.Errorf("%s: no ConfigMap", name)
		}
	}
}
