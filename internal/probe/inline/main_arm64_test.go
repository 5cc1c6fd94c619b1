package inline

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestMain has the tests run without the runtime's own signals: a handler finds the current g in a register, which holds a
// made-up one while a test carries out a body. Programs that are observed have theirs there.
func TestMain(m *testing.M) {
	const setting = "asyncpreemptoff=1"
	if old := os.Getenv("GODEBUG"); !strings.Contains(old, setting) {
		os.Setenv("GODEBUG", strings.TrimPrefix(old+","+setting, ","))
		fmt.Fprintln(os.Stderr, "starting again:", syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
