package codetruth

import (
	"bytes"
	"debug/elf"
	"embed"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// The tests run functions in small programs of their own: a driver calls the function with chosen registers and writes what
// became of registers, flags, stack and memory. Programs for the other architecture run under qemu-user.

//go:embed testdata/*.s
var sources embed.FS

// Where things stand in the programs; see testdata/driver_*.s.
const (
	dataAddr   = 0x30000000
	stackLow   = 0x31000000
	driverAddr = 0x32000000
	recordsOff = 0x10000
	recordLen  = 0x1000

	inRegs, inFlags     = 0x000, 0x100
	gOff, tlsOff        = 0x200, 0x300 // a g, and where thread-local storage ends
	outRegs, outFlags   = 0x300, 0x400
	outProbes, probeLog = 0x408, 0x500
	scratchOff, scratch = 0x700, 0x100
	outStack, recordEnd = 0x800, 0xA00
)

// funcAddrs are where functions stand, with room for stubs as far away as can be.
var funcAddrs = map[string]uint64{insn.AMD64: 1 << 32, insn.ARM64: 1 << 30}

// assembled is a piece of machine code with its labels.
type assembled struct {
	code   []byte
	labels map[string]int
}

// assemble makes machine code of assembler source.
func assemble(t *testing.T, arch, source string) assembled {
	t.Helper()
	object := filepath.Join(t.TempDir(), "a.o")
	compiler, args := "gcc", []string{"-c", "-x", "assembler", "-o", object, "-"}
	if foreign(t, arch) {
		target := map[string]string{insn.AMD64: "x86_64-linux-gnu", insn.ARM64: "aarch64-linux-gnu"}[arch]
		compiler, args = "clang-19", append(args, "--target="+target)
	}
	testtarget.Needs(t, compiler, compiler)
	cmd := testcmd.Command(t, compiler, args...)
	cmd.Stdin = bytes.NewReader([]byte(source + "\n"))
	if out, err := testcmd.Combined(cmd); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Section(".rela.text") != nil {
		t.Fatal("the source refers to something outside of it")
	}
	a := assembled{labels: map[string]int{}}
	if a.code, err = f.Section(".text").Data(); err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil && err != elf.ErrNoSymbols {
		t.Fatal(err)
	}
	for _, s := range symbols {
		a.labels[s.Name] = int(s.Value)
	}
	return a
}

func source(t *testing.T, name string) string {
	t.Helper()
	text, err := sources.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blob is memory of a program.
type blob struct {
	addr uint64
	data []byte
}

// writeELF writes an executable that consists of blobs, all of them writable and executable.
func writeELF(t *testing.T, arch string, entry uint64, blobs []blob) string {
	t.Helper()
	const page = 0x1000
	machine := map[string]elf.Machine{insn.AMD64: elf.EM_X86_64, insn.ARM64: elf.EM_AARCH64}[arch]
	var head, body bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7F, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Entry: entry,
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(blobs)),
	}
	binary.Write(&head, binary.LittleEndian, header)
	for _, b := range blobs {
		off := page + uint64(body.Len()) + b.addr%page
		binary.Write(&head, binary.LittleEndian, elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W | elf.PF_X),
			Off: off, Vaddr: b.addr, Paddr: b.addr, Filesz: uint64(len(b.data)), Memsz: uint64(len(b.data)), Align: page,
		})
		body.Write(make([]byte, b.addr%page))
		body.Write(b.data)
		body.Write(make([]byte, -body.Len()&(page-1)))
	}
	head.Write(make([]byte, page-head.Len()))
	path := filepath.Join(t.TempDir(), "program")
	syscall.ForkLock.RLock() // a child forked meanwhile would hold the file open, and it could not be run
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, append(head.Bytes(), body.Bytes()...), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// record is what one call of the function began with and ended with.
type record []byte

func (r record) u64(off int) uint64       { return binary.LittleEndian.Uint64(r[off:]) }
func (r record) put(off int, v uint64)    { binary.LittleEndian.PutUint64(r[off:], v) }
func (r record) probes() uint64           { return r.u64(outProbes) }
func (r record) seen() []byte             { return r[probeLog : probeLog+0x108] }
func (r record) input(n int, v uint64)    { r.put(inRegs+8*n, v) }
func recordAddr(n int, off uint64) uint64 { return dataAddr + recordsOff + uint64(n)*recordLen + off }

// result is what a call leaves: registers, flags, g, scratch memory and stack.
func (r record) result() []byte {
	return bytes.Join([][]byte{r[gOff : gOff+0x40], r[outRegs:outProbes], r[scratchOff : scratchOff+scratch], r[outStack:recordEnd]}, nil)
}

// inputs is the number of calls in a program.
const inputs = 16

// The registers with a meaning in the functions: where the scratch memory is, the g, and a small number.
var roles = map[string]struct{ scratch, g, small, saved int }{
	insn.AMD64: {scratch: 7, g: 14, small: 0, saved: 5},
	insn.ARM64: {scratch: 0, g: 28, small: 1, saved: 29},
}

// newRecords makes the inputs: random registers, each combination of a stack that must grow or not with a few small numbers.
func newRecords(arch string) []byte {
	rnd := rand.New(rand.NewPCG(5, 5))
	all := make([]byte, inputs*recordLen)
	role := roles[arch]
	for n := range inputs {
		r := record(all[n*recordLen : (n+1)*recordLen])
		for i := range 32 {
			r.input(i, rnd.Uint64())
		}
		for i := range scratch / 8 {
			r.put(scratchOff+8*i, rnd.Uint64())
		}
		flags := rnd.Uint64()&0x8D5 | 2
		if arch == insn.ARM64 {
			flags = rnd.Uint64() & 0xF0000000
		}
		r.put(inFlags, flags)
		r.input(role.scratch, recordAddr(n, scratchOff))
		r.input(role.g, recordAddr(n, gOff))
		r.input(role.small, uint64(n/2%4))
		if n%2 == 1 {
			r.put(gOff+0x10, ^uint64(0)) // the stack guard
		}
		r.put(tlsOff-8, recordAddr(n, gOff))
	}
	return all
}

// run calls the function at an address in a program made of blobs.
func run(t *testing.T, r rig, function uint64, blobs ...blob) []record {
	t.Helper()
	arch := r.arch
	data := record(make([]byte, recordsOff))
	data.put(0, inputs)
	data.put(8, function)
	blobs = append(blobs, blob{dataAddr, append(data, newRecords(arch)...)}, blob{stackLow, make([]byte, 0x11000)},
		blob{driverAddr, r.driver})
	args := []string{writeELF(t, arch, driverAddr, blobs)}
	if foreign(t, arch) {
		args = append(emulator(t, arch), args...)
	}
	var errs bytes.Buffer
	cmd := testcmd.Command(t, args[0], args[1:]...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || len(out) != inputs*recordLen {
		t.Fatalf("the program wrote %d bytes: %v %s", len(out), err, errs.String())
	}
	var records []record
	for n := range inputs {
		records = append(records, out[n*recordLen:(n+1)*recordLen])
	}
	return records
}

// foreign reports whether code of an architecture runs in an emulator only. Unless all releases are selected, it leaves the test out
// then.
func foreign(t *testing.T, arch string) bool {
	t.Helper()
	if arch == runtime.GOARCH {
		return false
	}
	testtarget.Whole(t, "code of "+arch+" in an emulator")
	return true
}

// emulator returns the command that runs programs of an architecture that is not the machine's.
func emulator(t *testing.T, arch string) []string {
	t.Helper()
	name := map[string]string{insn.AMD64: "qemu-x86_64", insn.ARM64: "qemu-aarch64"}[arch]
	testtarget.Needs(t, name, "qemu-user")
	return []string{name}
}

// difference tells where two results differ, for messages.
func difference(a, b []byte) string {
	for i := 0; i+8 <= min(len(a), len(b)); i += 8 {
		if x, y := binary.LittleEndian.Uint64(a[i:]), binary.LittleEndian.Uint64(b[i:]); x != y {
			return fmt.Sprintf("word %d is %#x instead of %#x", i/8, x, y)
		}
	}
	return "no difference"
}
