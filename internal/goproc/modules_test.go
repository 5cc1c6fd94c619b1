package goproc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestOtherRuntimes opens programs in which there are several Go runtimes, because a shared library brings its own, and
// programs in which there is one.
func TestOtherRuntimes(t *testing.T) {
	library := filepath.Join(filepath.Dir(testtarget.Build(t, testtarget.Spec{Program: "mixer", Go: "1.12.17", Library: true})), "libmixer.so")
	type program struct {
		spec    testtarget.Spec
		preload string
		want    string
	}
	programs := []program{
		{testtarget.Spec{Library: true}, library, "libmixer.so has its own Go runtime (go1."},
		{testtarget.Spec{Cgo: true}, library, "libmixer.so has its own Go runtime (go1.12.17): its goroutines are not observed"},
		{testtarget.Spec{Library: true}, "", ""},
		{testtarget.Spec{Cgo: true}, "", ""},
	}
	for _, test := range append(programs, testtarget.Rare(t, program{testtarget.Spec{Plugin: true}, "", ""})...) {
		test.spec.Program = "mixer"
		t.Run(test.spec.String()+"/"+filepath.Base(test.preload), func(t *testing.T) {
			cmd := testcmd.Within(t, 0, testtarget.Build(t, test.spec), "1")
			if test.preload != "" {
				cmd.Env = append(os.Environ(), "LD_PRELOAD="+test.preload)
			}
			target := testtarget.StartCmd(t, cmd)
			if test.spec.Plugin {
				target.Command("load")
			}
			p, err := Open(target.PID(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			got := strings.Join(event.WarningTexts(p.Warnings()), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) || strings.Contains(got, "\n") {
				t.Errorf("warnings %q, want %q", got, test.want)
			}
		})
	}
}
