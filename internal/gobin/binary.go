package gobin

import (
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// Binary is a Go executable on disk, opened for analysis. Its methods may be called from several goroutines.
type Binary struct {
	path   string
	file   *os.File
	image  *image
	arch   string
	pcln   *pclntab
	module Module

	goVersion string // as the executable spells it
	version   Version
	build     *debug.BuildInfo // nil when there is none

	table     *layout.Layout // of the release
	wrapperID int            // FuncID of compiler-made wrappers; -1 when unknown

	runtimeOnce  sync.Once
	runtimeFuncs map[string]int

	layoutOnce sync.Once
	layout     *layout.Layout
	dwarfErr   error

	globalsOnce     sync.Once
	globals         Globals
	waitReasonCount int
}

// Open analyses the executable at a path. The caller closes the Binary. Errors wrap the sentinels of this package or
// those of package os.
func Open(path string) (*Binary, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is refused, not waited for
	if err != nil {
		return nil, err
	}
	b, err := OpenFile(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// OpenFile is Open for an open file, which the Binary then owns. name stands for it in messages.
func OpenFile(f *os.File, name string) (*Binary, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file", name, ErrNotELF)
	}
	b, err := New(f, st.Size(), name)
	if err != nil {
		return nil, err
	}
	b.file = f
	return b, nil
}

// New analyses an executable's bytes. name stands for it in messages.
func New(r io.ReaderAt, size int64, name string) (b *Binary, err error) {
	defer func() {
		// The standard library's ELF and build-info readers are not made for hostile input.
		if p := recover(); p != nil {
			b, err = nil, fmt.Errorf("%s: %w: %v", name, ErrCorrupt, p)
		}
	}()
	b = &Binary{path: name, wrapperID: -1}
	if err := b.open(r, size); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

func (b *Binary) open(r io.ReaderAt, size int64) error {
	r, f, err := openELF(r)
	if err != nil {
		return err
	}
	if b.arch, err = archOf(f); err != nil {
		return err
	}
	if b.image, err = newImage(r, size, f); err != nil {
		return err
	}
	if err := b.image.loadRelocs(); err != nil {
		return err
	}
	if b.pcln, err = b.image.findPclntab(); err != nil {
		return err
	}
	if err := b.readVersion(r); err != nil {
		return err
	}
	if b.table, err = layout.ForVersion(b.goVersion, b.arch); err != nil {
		return fmt.Errorf("%w: %v", ErrUnsupported, err)
	}
	if id, ok := b.table.Const("runtime.funcID_wrapper"); ok {
		b.wrapperID = int(id)
	}
	if b.module.Addr != 0 {
		return nil // found while the version was looked for
	}
	b.module, err = b.findModule(b.table)
	return err
}

// openELF reads the ELF headers. It returns the reader that gives sound ones.
func openELF(r io.ReaderAt) (io.ReaderAt, *elf.File, error) {
	var magic [4]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil, nil, ErrNotELF
	}
	f, err := readHeaders(r)
	if err == nil {
		return r, f, nil
	}
	// A program runs without its section headers, and so it can be looked at without them.
	bare := withoutSections{r}
	if f, bareErr := readHeaders(bare); bareErr == nil {
		return bare, f, nil
	}
	return nil, nil, fmt.Errorf("%w: %v", ErrCorrupt, err)
}

func readHeaders(r io.ReaderAt) (*elf.File, error) {
	budget := &budgetReader{r: r, left: maxHeaderBytes}
	f, err := elf.NewFile(budget)
	budget.left = maxFileBytes // what is read from now on is measured by those who read it
	return f, err
}

// withoutSections is an executable whose ELF header says that there are no section headers.
type withoutSections struct{ r io.ReaderAt }

func (w withoutSections) ReadAt(p []byte, off int64) (int, error) {
	n, err := w.r.ReadAt(p, off)
	for _, field := range [][2]int64{{0x28, 8}, {0x3c, 4}} { // e_shoff; e_shnum and e_shstrndx
		for i := field[0]; i < field[0]+field[1]; i++ {
			if i >= off && i < off+int64(n) {
				p[i-off] = 0
			}
		}
	}
	return n, err
}

// Bounds on what the standard library may read of a file: it takes the sizes in the file's headers at their word.
const (
	maxHeaderBytes    = 64 << 20
	maxBuildInfoBytes = 512 << 20
	maxFileBytes      = 1 << 62
)

// budgetReader is a reader that fails once it has read a number of bytes.
type budgetReader struct {
	r    io.ReaderAt
	left int64
}

func (b *budgetReader) ReadAt(p []byte, off int64) (int, error) {
	if int64(len(p)) > b.left {
		return 0, fmt.Errorf("the file's headers contain implausible sizes")
	}
	b.left -= int64(len(p))
	return b.r.ReadAt(p, off)
}

// archOf returns the Go name of the architecture, or why it is not supported.
func archOf(f *elf.File) (string, error) {
	switch {
	case f.Class != elf.ELFCLASS64:
		return "", fmt.Errorf("%w: 32-bit executable (%v); Loupe supports amd64 and arm64", ErrUnsupportedArch, f.Machine)
	case f.Data != elf.ELFDATA2LSB:
		return "", fmt.Errorf("%w: big-endian executable (%v); Loupe supports amd64 and arm64", ErrUnsupportedArch, f.Machine)
	case f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN:
		return "", fmt.Errorf("%w: ELF type %v", ErrNotELF, f.Type)
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("%w: %v; Loupe supports amd64 and arm64", ErrUnsupportedArch, f.Machine)
}

// readVersion finds the Go release: in the build information, else in the runtime's own version string.
func (b *Binary) readVersion(r io.ReaderAt) error {
	info, infoErr := buildinfo.Read(&budgetReader{r: r, left: maxBuildInfoBytes})
	if infoErr == nil {
		b.goVersion, b.build = info.GoVersion, info
		if v, err := ParseVersion(info.GoVersion); err == nil {
			b.version = v
			return nil
		}
	}
	v, err := b.versionFromCode()
	if err != nil {
		return fmt.Errorf("%w (%v)", err, infoErr)
	}
	b.goVersion = v
	b.version, err = ParseVersion(v)
	return err
}

// Close releases the file.
func (b *Binary) Close() error {
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}

// File returns the open file; nil for a Binary that New has made. The Binary closes it.
func (b *Binary) File() *os.File { return b.file }

// Path returns the name that the Binary was opened by.
func (b *Binary) Path() string { return b.path }

// Arch returns the architecture in Go's spelling: "amd64" or "arm64".
func (b *Binary) Arch() string { return b.arch }

// GoVersion returns the Go release as the executable spells it, "go1.22.12".
func (b *Binary) GoVersion() string { return b.goVersion }

// Version returns the Go release in numbers.
func (b *Binary) Version() Version { return b.version }

// BuildInfo returns the build information, nil when the executable has none (before Go 1.13, or removed).
func (b *Binary) BuildInfo() *debug.BuildInfo { return b.build }

// Module returns the runtime's view of the executable's image.
func (b *Binary) Module() Module { return b.module }

// EntryPoint returns the address of the first instruction that the kernel runs.
func (b *Binary) EntryPoint() uint64 { return b.image.elf.Entry }

// PIE reports whether the executable is position-independent: loaded at an address of the kernel's choice.
func (b *Binary) PIE() bool { return b.image.elf.Type == elf.ET_DYN }

func (b *Binary) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", b.path, fmt.Errorf(format, args...))
}

// LoadBias returns what the loader added to the file's addresses, given the start and file offset of a mapping of its
// code; false when the file has no code at that offset.
func (b *Binary) LoadBias(start, offset uint64) (uint64, bool) {
	return b.image.loadBias(start, offset)
}
