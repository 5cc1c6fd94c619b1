package uprobe

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
)

func TestMultiIn(t *testing.T) {
	for release, usable := range map[string]bool{
		"5.10.0-30-amd64": false, "6.6.1": false, "6.11.11": false, "6.12.0-rc1": true, "6.12.43+deb13-amd64": true, "7.0": true,
	} {
		if err := multiIn(release); (err == nil) != usable || err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
			t.Errorf("Linux %s: %v", release, err)
		}
	}
	if err := multiIn("unknown"); err == nil || errors.Is(err, ebpf.ErrNotSupported) {
		t.Errorf("a release without a number: %v", err)
	}
}
