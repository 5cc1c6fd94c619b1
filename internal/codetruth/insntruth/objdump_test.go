package insntruth

import (
	"bufio"
	_ "crypto/tls" // vector code of every generation, for the length decoder
	"debug/elf"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestX86LengthAgainstObjdump compares the lengths of the instructions of the test's own executable.
func TestX86LengthAgainstObjdump(t *testing.T) {
	testtarget.Needs(t, "objdump", "binutils")
	text, base, path := ownText(t)
	const (
		limit  = 2 << 20
		maxLen = 15 // of an instruction
	)
	cmd := testcmd.Command(t, "objdump", "-d", "-w", "-j", ".text", "--insn-width=16",
		"--stop-address="+strconv.FormatUint(base+limit, 10), path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		addr, length, ok := objdumpLine(lines.Text())
		if !ok || addr < base || addr-base > limit-maxLen || addr-base >= uint64(len(text)) {
			continue
		}
		compared++
		b := text[addr-base:]
		list, err := insn.Instructions(insn.Code{Arch: insn.AMD64, Entry: addr, Bytes: b[:min(maxLen, len(b))]})
		if err != nil {
			t.Fatal(err)
		}
		if list[0].Len != length {
			t.Errorf("length %d, objdump says %s", list[0].Len, lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if compared < 200_000 {
		t.Errorf("compared %d instructions: too few to mean anything", compared)
	}
}

// ownText is the code of the test itself.
func ownText(t *testing.T) (text []byte, base uint64, path string) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		t.Skip("this test is no amd64 executable")
	}
	section := f.Section(".text")
	if text, err = section.Data(); err != nil {
		t.Fatal(err)
	}
	return text, section.Addr, path
}

// objdumpLine reads the address and the length of an instruction.
func objdumpLine(line string) (addr uint64, length int, ok bool) {
	fields := strings.SplitN(line, "\t", 3)
	if len(fields) < 3 || strings.Contains(fields[2], "(bad)") {
		return 0, 0, false
	}
	addr, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(fields[0]), ":"), 16, 64)
	return addr, len(strings.Fields(fields[1])), err == nil
}
