package goproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/procmap"
)

// module is an image with Go code in the process: the executable, a plugin, or a shared library.
type module struct {
	bin    *gobin.Binary
	bias   uint64 // address in the process minus address in the file
	lo, hi uint64 // the range of its Go code in the process
}

func newModule(bin *gobin.Binary, bias uint64) *module {
	m := bin.Module()
	return &module{bin: bin, bias: bias, lo: m.MinPC + bias, hi: m.MaxPC + bias}
}

// openMain opens the image that holds the Go runtime: the executable, or in a program of another language a shared
// library built by `go build -buildmode=c-shared`.
func (p *Process) openMain() (*module, error) {
	bin, exeErr := openExe(p.pid)
	if exeErr == nil {
		bias, err := p.loadBias(bin)
		if err != nil {
			bin.Close()
			return nil, err
		}
		return newModule(bin, bias), nil
	}
	if !errors.Is(exeErr, ErrNotGo) {
		return nil, exeErr
	}
	libraries, err := p.libraries()
	if err != nil {
		return nil, err
	}
	notFound := exeErr
	for _, m := range libraries {
		lib, err := p.openMapped(m)
		if errors.Is(err, ErrPermission) {
			notFound = fmt.Errorf("process %d: %w: %s", p.pid, ErrUnreadable, m.Path)
		}
		if err != nil {
			continue // most libraries are not written in Go
		}
		return lib, nil
	}
	return nil, notFound
}

// libraries returns a mapping of the code of each shared library.
func (p *Process) libraries() ([]procmap.Mapping, error) {
	maps, err := p.maps()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(maps, func(m procmap.Mapping) bool {
		if !m.Exec() || m.Inode == 0 || !strings.Contains(filepath.Base(m.Path), ".so") || seen[m.Path] {
			return true
		}
		seen[m.Path] = true
		return false
	}), nil
}

// findOtherRuntimes warns about shared libraries that contain another Go runtime, which is not observed.
func (p *Process) findOtherRuntimes() error {
	libraries, err := p.libraries()
	if err != nil {
		return err
	}
	for _, m := range libraries {
		if slices.ContainsFunc(p.symbols.modules, func(known *module) bool { return known.lo < m.End && m.Start < known.hi }) {
			continue
		}
		lib, err := p.openMapped(m)
		if err != nil {
			continue // most libraries are not written in Go
		}
		p.warn(event.WarnMissing, "%s has its own Go runtime (%s): its goroutines are not observed", m.Path, lib.bin.GoVersion())
		lib.bin.Close()
	}
	return nil
}

// runsMain reports whether goroutine 1 runs the main function until the process exits. In an image built with
// -buildmode=c-shared or c-archive it ends when the runtime has been initialized (runtime.main). The linker includes the
// entry point for C (runtime/rt0_linux_*.s) in these images only.
func runsMain(bin *gobin.Binary) bool {
	_, entryForC := bin.LookupFunc("_rt0_" + bin.Arch() + "_linux_lib")
	return !entryForC
}

// loadBias returns the load bias of the executable, from the entry point that the kernel reports to the program.
func (p *Process) loadBias(bin *gobin.Binary) (uint64, error) {
	if !bin.PIE() {
		return 0, nil
	}
	auxv, err := p.dir.read("auxv")
	if errors.Is(err, ErrPermission) { // only the owner's permissions open it; CAP_SYS_PTRACE opens the mappings
		return p.mappedBias(bin)
	}
	if err != nil {
		return 0, err
	}
	const atEntry = 9
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.LittleEndian.Uint64(auxv) == atEntry {
			return binary.LittleEndian.Uint64(auxv[8:]) - bin.EntryPoint(), nil
		}
	}
	return 0, fmt.Errorf("process %d: %w: the kernel does not report where %s was loaded", p.pid, ErrUnsupported, bin.Path())
}

// mappedBias returns the load bias from the mapping of the executable's code.
func (p *Process) mappedBias(bin *gobin.Binary) (uint64, error) {
	maps, err := p.maps()
	if err != nil {
		return 0, err
	}
	for _, m := range maps {
		if !m.Exec() || m.Inode == 0 || m.Path != bin.Path() {
			continue
		}
		if bias, ok := bin.LoadBias(m.Start, m.Offset); ok {
			return bias, nil
		}
	}
	return 0, fmt.Errorf("process %d: %w: %s is not among its mappings", p.pid, ErrUnsupported, bin.Path())
}

// maps returns the process's memory mappings.
func (p *Process) maps() ([]procmap.Mapping, error) {
	b, err := p.dir.read("maps")
	if err != nil {
		return nil, err
	}
	maps, err := procmap.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", p.pid, err)
	}
	return maps, nil
}

// openMapped opens the file of a mapping in the mount namespace of the process.
func (p *Process) openMapped(m procmap.Mapping) (*module, error) {
	f, err := p.mappedFile(m)
	if err != nil {
		return nil, err
	}
	bin, err := gobin.OpenFile(f, m.Path)
	if err != nil {
		f.Close()
		return nil, err
	}
	bias, ok := bin.LoadBias(m.Start, m.Offset)
	if !ok {
		bin.Close()
		return nil, fmt.Errorf("process %d: %w: %s is not the file that was loaded", p.pid, ErrUnsupported, m.Path)
	}
	return newModule(bin, bias), nil
}

// mappedFile opens the file of a mapping, even if another file has replaced it at its path.
func (p *Process) mappedFile(m procmap.Mapping) (*os.File, error) {
	// This link refers to the file itself. Following it requires CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
	if f, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", p.pid, m.Start, m.End)); err == nil {
		return f, nil
	}
	path := filepath.Join(fmt.Sprintf("/proc/%d/root", p.pid), m.Path)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // another file may have replaced it: a pipe must not block
	if err != nil {
		return nil, procError(p.pid, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Ino != m.Inode {
		f.Close()
		return nil, fmt.Errorf("process %d: %w: %s was replaced after it was loaded", p.pid, ErrUnsupported, m.Path)
	}
	return f, nil
}

// maxModules bounds the walk of the list of modules.
const maxModules = 256

// loadPlugins adds the plugins from the runtime's list of module data. A plugin that
// cannot be opened causes a warning, and its frames have no names.
func (p *Process) loadPlugins() {
	next, ok := p.layout.Field("runtime.moduledata.next")
	text, okText := p.layout.Field("runtime.moduledata.text")
	if !ok || !okText {
		return
	}
	addr, err := p.mem.u64(p.main.bin.Module().Addr + p.main.bias + uint64(next.Offset))
	for ; err == nil && addr != 0 && p.plugins < maxModules; p.plugins++ {
		if err := p.loadPlugin(addr + uint64(text.Offset)); err != nil {
			p.warn(event.WarnNames, "cannot read a plugin; its frames have no names: %v", err)
		}
		addr, err = p.mem.u64(addr + uint64(next.Offset))
	}
}

// Plugins returns the number of modules, besides its own, that the runtime had loaded when the process was opened.
func (p *Process) Plugins() int { return p.plugins }

// loadPlugin adds the module whose code starts at the address stored at textAddr.
func (p *Process) loadPlugin(textAddr uint64) error {
	text, err := p.mem.u64(textAddr)
	if err != nil {
		return err
	}
	maps, err := p.maps()
	if err != nil {
		return err
	}
	m, ok := procmap.Of(maps, text)
	if !ok || m.Inode == 0 {
		return fmt.Errorf("process %d: no file is mapped at %#x", p.pid, text)
	}
	mod, err := p.openMapped(m)
	if err != nil {
		return err
	}
	p.symbols.modules = append(p.symbols.modules, mod)
	return nil
}
