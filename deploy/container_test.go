package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// containerEnv has this program put itself into a container, and become the command that its arguments name. Its value is a container
// as JSON.
const containerEnv = "LOUPE_TEST_CONTAINER"

// A container is what the DaemonSet gives the agent: namespaces of its own except that of processes, a read-only root with nothing but
// the executable, /proc and a read-only /sys, a directory for recordings, some capabilities, and a seccomp filter.
type container struct {
	Root       string // an empty directory
	Executable string // becomes /loupe
	Caps       []int
	Filter     []unix.SockFilter // empty: no filter of system calls
	Config     string            // becomes /etc/loupe/config.yaml
}

// inContainer returns a command that runs an executable in a container, as user root.
func inContainer(t *testing.T, executable string, caps []int, filter []unix.SockFilter, args ...string) *exec.Cmd {
	t.Helper()
	cmd := testcmd.Command(t, os.Args[0], args...)
	container{Executable: executable, Caps: caps, Filter: filter}.hold(t, cmd)
	return cmd
}

// hold has a command of this program put itself into the container.
func (c container) hold(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	c.Root = t.TempDir()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{containerEnv + "=" + string(text), "PATH=/"}
}

func TestMain(m *testing.M) {
	if text := os.Getenv(containerEnv); text != "" {
		fmt.Fprintln(os.Stderr, enter(text))
		os.Exit(125)
	}
	dir, err := os.MkdirTemp("", "loupe-deploy-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // other users run what is built there
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	builds = dir
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// builds is the directory of executables that tests have built; building is held meanwhile.
var (
	builds   string
	building sync.Mutex
)

// build returns the path of a command of Loupe, built as it is released.
func build(t *testing.T, name string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(builds, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	// Without -trimpath, so that the packages that were compiled for tests are used.
	cmd := testcmd.Within(t, 30*time.Minute, "go", "build", "-ldflags=-s -w", "-o", path, "../cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// enter puts this process into a container and executes its command. It returns only if that fails.
func enter(text string) error {
	var c container
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	runtime.LockOSThread() // namespaces and capabilities are those of a thread; the others end when it executes
	if err := c.mount(); err != nil {
		return err
	}
	if err := c.limit(); err != nil {
		return err
	}
	return syscall.Exec("/loupe", append([]string{"loupe"}, os.Args[1:]...), []string{"PATH=/", "HOME=/var/lib/loupe"})
}

// mount makes the namespaces and the file system.
func (c *container) mount() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := loopback(); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	in := func(path string) string { return filepath.Join(c.Root, path) }
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	steps := []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"tmpfs", in("/"), "tmpfs", safe},
		{"proc", in("proc"), "proc", safe | unix.MS_NOEXEC},
		{in("proc/sys"), in("proc/sys"), "", unix.MS_BIND},
		{"", in("proc/sys"), "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | safe | unix.MS_NOEXEC},
		{"sysfs", in("sys"), "sysfs", safe | unix.MS_NOEXEC | unix.MS_RDONLY},
		{c.Executable, in("loupe"), "", unix.MS_BIND},
		{"tmpfs", in("var/lib/loupe"), "tmpfs", safe},
		{"", in("/"), "", unix.MS_REMOUNT | unix.MS_RDONLY | safe},
	}
	for i, s := range steps {
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", s.target, err)
		}
		if i == 1 {
			for _, dir := range []string{"proc", "sys", "var/lib/loupe", "etc/loupe"} {
				if err := os.MkdirAll(in(dir), 0o755); err != nil {
					return err
				}
			}
			if err := errors.Join(os.WriteFile(in("loupe"), nil, 0o755), os.WriteFile(in("etc/loupe/config.yaml"), []byte(c.Config), 0o644)); err != nil {
				return err
			}
		}
	}
	if err := unix.Chroot(c.Root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return os.Chdir("/")
}

// loopback enables the loopback interface of the network namespace.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// limit drops all capabilities but some, for good, and installs the filter.
func (c *container) limit() error {
	var keep [2]unix.CapUserData
	kept := map[int]bool{}
	for _, bit := range c.Caps {
		kept[bit] = true
		keep[bit/32].Effective |= 1 << (bit % 32)
		keep[bit/32].Permitted |= 1 << (bit % 32)
	}
	for bit := 0; bit <= unix.CAP_LAST_CAP; bit++ {
		if kept[bit] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(bit), 0, 0, 0); err != nil && err != unix.EINVAL { // a capability of a newer kernel
			return fmt.Errorf("drop capability %d: %w", bit, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if len(c.Filter) > 0 {
		program := unix.SockFprog{Len: uint16(len(c.Filter)), Filter: &c.Filter[0]}
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
			return fmt.Errorf("seccomp: %w", errno)
		}
		runtime.KeepAlive(c.Filter)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &keep[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}
