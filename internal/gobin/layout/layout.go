package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/godwarf"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/wanted"
)

// Errors of this package wrap one of these; errors.Is tells which.
var (
	// ErrUnsupportedVersion: no Go release that can be known, or one before Go 1.12.
	ErrUnsupportedVersion = errors.New("unsupported Go version")

	// ErrUnsupportedArch: neither amd64 nor arm64.
	ErrUnsupportedArch = insn.ErrUnsupportedArch

	// ErrUnknownField: the release has no such field.
	ErrUnknownField = errors.New("no such field")

	// ErrNoDWARF: the executable has no debug information of the Go runtime, or in a form that cannot be read.
	ErrNoDWARF = godwarf.ErrNoDWARF

	// ErrCorruptDWARF: the debug information contradicts itself, ends early or is out of all proportion.
	ErrCorruptDWARF = godwarf.ErrCorrupt
)

// Source tells where a Layout comes from.
type Source int

const (
	// SourceDWARF: the executable's own debug information.
	SourceDWARF Source = iota + 1

	// SourceTable: the embedded table, which knows the release.
	SourceTable

	// SourceNearest: the embedded table does not know the release; this is the one nearest to it. To be verified.
	SourceNearest
)

// String names the source as messages show it.
func (s Source) String() string {
	switch s {
	case SourceDWARF:
		return "DWARF"
	case SourceTable:
		return "table"
	case SourceNearest:
		return "nearest table"
	}
	return fmt.Sprintf("Source(%d)", int(s))
}

// Layout is what is known of the runtime's structs in one program. It does not change and may be used by several
// goroutines.
type Layout struct {
	GoVersion string // the release that the layout is of, "go1.22.12"; with SourceNearest, the neighbour
	Arch      string // "amd64" or "arm64"
	Source    Source

	data *table.Snapshot
}

// Field is where a field is in its struct.
type Field struct {
	Offset uint32 // in bytes from the start of the outermost struct
	Size   uint32 // in bytes
}

// Field returns a field by its path, such as "runtime.g.sched.sp"; false when the release does not have it.
func (l *Layout) Field(path string) (Field, bool) {
	name, field, ok := table.CutPath(path)
	if !ok {
		return Field{}, false
	}
	f, ok := l.data.Structs[name].Fields[field]
	return Field(f), ok
}

// Offset returns a field's offset in bytes. The error, which wraps ErrUnknownField, names the field, the release and the
// source.
func (l *Layout) Offset(path string) (uint64, error) {
	f, ok := l.Field(path)
	if !ok {
		return 0, fmt.Errorf("%w: %s in %s/%s (from %v)", ErrUnknownField, path, l.GoVersion, l.Arch, l.Source)
	}
	return uint64(f.Offset), nil
}

// Size returns a struct's size in bytes; false when the release does not have it.
func (l *Layout) Size(structName string) (uint64, bool) {
	s, ok := l.data.Structs[structName]
	return uint64(s.Size), ok
}

// Fields returns the paths of all fields of a struct, sorted; nil when the release does not have it.
func (l *Layout) Fields(structName string) []string {
	var paths []string
	for field := range l.data.Structs[structName].Fields {
		paths = append(paths, structName+"."+field)
	}
	slices.Sort(paths)
	return paths
}

// Const returns the value of one of the runtime's constants, such as "runtime._Gwaiting", "runtime.funcID_wrapper",
// "runtime._PCDATA_InlTreeIndex", "runtime.waitReasonSelect" or "runtime.traceBlockSync", by the name that package
// runtime once gave it or by that of the release ("internal/abi.FuncIDWrapper"); false when the release lacks it.
func (l *Layout) Const(name string) (int64, bool) {
	if known, ok := wanted.Const(name); ok {
		name = known
	}
	v, ok := l.data.Consts[name]
	return v, ok
}

// WaitReasons returns the texts that the runtime shows for goroutines that wait, by the value of runtime.waitReason.
// Unused values have an empty text.
func (l *Layout) WaitReasons() []string { return l.Strings(wanted.WaitReasons) }

// Strings returns one of the runtime's arrays of texts by the variable's name: "runtime.waitReasonStrings",
// "runtime.traceBlockReasonStrings" (since Go 1.22), "runtime.traceGoStopReasonStrings" (since Go 1.22) and
// "runtime.stwReasonStrings" (since Go 1.21). It is nil in releases that lack it.
func (l *Layout) Strings(name string) []string { return slices.Clone(l.data.Strings[name]) }
