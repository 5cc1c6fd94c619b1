package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPrivileges requires that no thread of the agent has a capability that it does not need after its start, or can get one, and that it
// can attach to a process that appears later.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	first := colony(t)
	b := startBinary(t, "targets: {pids: ["+strconv.Itoa(first.PID())+"]}\n")
	bit := func(c int) uint64 { return 1 << c }
	need := bit(unix.CAP_BPF) | bit(unix.CAP_PERFMON) | bit(unix.CAP_SYS_PTRACE) | bit(unix.CAP_DAC_READ_SEARCH)
	allowed := need | bit(unix.CAP_NET_ADMIN) // with the process connector
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.cmd.Process.Pid))
	if err != nil || len(tasks) < 2 {
		t.Fatal(tasks, err)
	}
	checked := 0
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		checked++
		for _, m := range regexp.MustCompile(`(?m)^(Cap\w+|NoNewPrivs):\t(\w+)$`).FindAllStringSubmatch(string(text), -1) {
			v, err := strconv.ParseUint(m[2], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			switch m[1] {
			case "CapEff", "CapPrm":
				if v&need != need || v&^allowed != 0 {
					t.Errorf("%s: %s is %x, want %x", path, m[1], v, need)
				}
			case "CapBnd":
				if v&^allowed != 0 {
					t.Errorf("%s: %s is %x, want at most %x", path, m[1], v, allowed)
				}
			default:
				if want := map[string]uint64{"NoNewPrivs": 1}[m[1]]; v != want {
					t.Errorf("%s: %s is %x, want %x", path, m[1], v, want)
				}
			}
		}
	}
	if checked < 2 {
		t.Error("no thread was checked")
	}
	later := colony(t)
	write(t, b.config, only("", later))
	b.await(atLeast(1), "loupe_target_level", pidLabel(later))
}

// TestSockets requires that the agent has no other sockets than those that its configuration names.
func TestSockets(t *testing.T) {
	t.Parallel()
	b := startBinary(t, only("", colony(t)), "--set=health.listen=127.0.0.2:0", "--set=pprof.listen=127.0.0.3:0")
	b.await(atLeast(1), "loupe_target_level")
	inodes := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", b.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.Trim(to, "socket:[]")] = true
		}
	}
	var found []string
	for _, table := range []struct {
		name             string
		inode            int
		listens, address int // fields; without listens, all sockets count
		state            string
	}{{"tcp", 9, 3, 1, "0A"}, {"tcp6", 9, 3, 1, "0A"}, {"udp", 9, -1, 1, ""}, {"udp6", 9, -1, 1, ""}, {"raw", 9, -1, 1, ""}, {"unix", 6, -1, 6, ""}, {"packet", 8, -1, 2, ""}} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", b.cmd.Process.Pid, table.name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > table.inode && inodes[f[table.inode]] && (table.listens < 0 || f[table.listens] == table.state) {
				found = append(found, table.name+" "+f[table.address])
			}
		}
	}
	var want []string
	for _, m := range regexp.MustCompile(`127\.0\.0\.([123]):(\d+)`).FindAllStringSubmatch(b.awaitLog("serving=.*")[0], -1) {
		port, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("tcp 0%s00007F:%04X", m[1], port))
	}
	if len(want) != 3 {
		t.Fatal(b.logged())
	}
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("the agent has the sockets %q, want %q", found, want)
	}
}
