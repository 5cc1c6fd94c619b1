package uprobe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
)

// lockdownFile has the kernel's lockdown mode (kernel_lockdown(7)).
const lockdownFile = "/sys/kernel/security/lockdown"

// oneLine is an error whose message is always one line.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }

// explain adds the reason of a failure to an error, as a sentinel and as text.
func (e *Engine) explain(err error) error { return oneLine{e.reason(err)} }

func (e *Engine) reason(err error) error {
	switch {
	case errors.Is(err, probe.ErrPermission):
		return err
	case errors.Is(err, unix.ESRCH), errors.Is(err, fs.ErrNotExist): // a zombie has no executable either
		return fmt.Errorf("%w: %w", goproc.ErrExited, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, fs.ErrPermission):
		if e.lockedDown() {
			return fmt.Errorf("%w: kernel lockdown mode confidentiality does not allow eBPF programs to read memory: %w", probe.ErrPermission, err)
		}
		return fmt.Errorf("%w: %w", probe.ErrPermission, err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %w", probe.ErrUnsupported, err)
	}
	return err
}

// lockedDown reports whether the kernel's lockdown mode forbids probes.
func (e *Engine) lockedDown() bool {
	path := e.opt.lockdown
	if path == "" {
		path = lockdownFile
	}
	b, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(b), "[confidentiality]")
}
