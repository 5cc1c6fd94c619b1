package agent

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/agent/discover"
)

// kept returns the capabilities that the agent requires after its start, as a set of bits: processes appear later, and settings change.
// last is the newest capability of the kernel.
func kept(last int, inline bool, source discover.Source) (keep uint64) {
	list := []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}
	if inline || last < unix.CAP_BPF { // suspend filters of system calls; what BPF and PERFMON permit on newer kernels
		list = append(list, unix.CAP_SYS_ADMIN)
	}
	if last < unix.CAP_BPF {
		list = append(list, unix.CAP_SYS_RESOURCE)
	}
	if source == discover.SourceConnector { // unsubscribe at the end
		list = append(list, unix.CAP_NET_ADMIN)
	}
	for _, c := range list {
		keep |= 1 << c
	}
	return keep
}

// usesInline reports whether targets can have engine inline. annotations says that those of pods are known.
func usesInline(c *config.Config, annotations bool) bool {
	inline := c.Tracing.Engine == "inline" || annotations && slices.Contains(c.Kubernetes.Annotations, "engine")
	for i := range c.Tracing.Overrides {
		inline = inline || c.Tracing.Overrides[i].Engine == "inline"
	}
	return inline
}

// dropPrivileges gives up, for all threads and for good, what the agent does not require after its start. What cannot be given up is logged.
func dropPrivileges(inline bool, source discover.Source, log *slog.Logger) {
	last, err := lastCapability()
	if err == nil {
		err = dropCapabilities(kept(last, inline, source), last)
	}
	if err != nil {
		log.Warn("the agent keeps capabilities that it does not require", "err", err)
	}
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		log.Warn("the agent can gain privileges by executing a program", "err", err)
	}
}

// lastCapability returns the newest capability of the kernel.
func lastCapability() (int, error) {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err == nil && (n < 0 || n > 63) {
		err = fmt.Errorf("/proc/sys/kernel/cap_last_cap is %d", n)
	}
	return n, err
}

// dropCapabilities removes all capabilities except those to keep from the sets of all threads.
func dropCapabilities(keep uint64, last int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if data[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		for c := range last + 1 {
			if keep>>c&1 != 0 {
				continue
			}
			if err := onAllThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0); err != nil {
				return fmt.Errorf("cannot drop capability %d from the bounding set: %w", c, err)
			}
		}
	}
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return fmt.Errorf("cannot clear the ambient set: %w", err)
	}
	for i := range data {
		mask := uint32(keep >> (32 * i))
		data[i].Permitted &= mask
		data[i].Effective &= mask
		data[i].Inheritable = 0
	}
	if err := setCapabilities(&header, &data); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}
