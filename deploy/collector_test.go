package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testcollector"
)

// TestCollectorConfig has the Collector check the example of its configuration.
func TestCollectorConfig(t *testing.T) {
	collector := testcollector.Executable(t)
	validate := func(config string) (status int, stderr string) {
		status, _, stderr = testcmd.Run(t, testcmd.Command(t, collector, "validate", "--config", config, "--feature-gates=service.profilesSupport"))
		return status, stderr
	}
	const file = "collector/config.yaml"
	if status, stderr := validate(file); status != 0 {
		t.Error(stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	for _, change := range [][2]string{{"limit_percentage: 80", "limit: 80"}, {"exporters: [otlp/tempo]", "exporters: [otlp/tem]"}} {
		write(t, broken, strings.Replace(string(text), change[0], change[1], 1))
		if status, _ := validate(broken); status == 0 {
			t.Errorf("the Collector accepts %q", change[1])
		}
	}
}
