package testcmd

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// describeWorld says in which world a process runs, as its own process and as a process that it starts sees it. Signals 32
// and 33 are left out: the C library uses them, and its posix_spawn has them ignored.
func describeWorld() string {
	const ask = `set -- $(grep SigIgn /proc/self/status); echo ignored $((0x$2 & 0x7fffffff)); umask; ulimit -c; test $(ulimit -Sn) = $(ulimit -Hn) && echo files; echo "$TERM $TZ $LANG$LC_ALL$NO_COLOR$GODEBUG$GOGC"`
	child, err := Combined(Within(nil, time.Minute, "sh", "-c", ask))
	mask := unix.Umask(umask)
	unix.Umask(mask)
	_, offset := time.Unix(0, 0).Zone()
	return fmt.Sprintf("%s%v %03o %d", child, err, mask, offset)
}

// TestWorld starts a test process as nohup does, with another umask and another environment: it makes no difference.
func TestWorld(t *testing.T) {
	run := func(script string, env ...string) string {
		t.Helper()
		cmd := Command(t, "sh", "-c", script+`exec "$0"`, os.Args[0])
		cmd.Env = append(append(os.Environ(), "LOUPE_TESTCMD=world", inherited+"="), env...)
		status, out, errOut := Run(t, cmd)
		if status != 0 {
			t.Fatalf("status %d: %s", status, errOut)
		}
		return out
	}
	plain := run("")
	if want := "ignored 0\n0022\n0\nfiles\nxterm-256color UTC C.UTF-8\n<nil> 022 0\n"; plain != want {
		t.Errorf("%q, want %q", plain, want)
	}
	cmd := Command(t, os.Args[0])
	cmd.Env = append(os.Environ(), "LOUPE_TESTCMD=world", "GODEBUG=madvdontneed=0", "TZ=Asia/Kathmandu")
	if _, given, _ := Run(t, cmd); !strings.Contains(given, "Asia/Kathmandu") || !strings.Contains(given, "madvdontneed=0") {
		t.Errorf("what a test sets is lost: %q", given)
	}
	other := run(`trap "" HUP INT QUIT TSTP TTIN; umask 077; ulimit -Sn 64; `,
		"TERM=", "TZ=Asia/Kathmandu", "LC_ALL=de_DE.UTF-8", "LANG=C", "NO_COLOR=1", "GODEBUG=gctrace=1", "GOGC=5")
	if strings.Contains(other, "gc 1") || other != plain {
		t.Errorf("%q, want %q", other, plain)
	}
}
