package insntruth

import (
	"encoding/binary"
	"sort"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// frames tells by .debug_frame where the stack pointer is: the linker's truth
// about what the site finder computes.
type frames struct {
	entries []frameEntry // by start
	atEntry int64        // offset of the frame address from the stack pointer at a function's entry
}

type frameEntry struct {
	start, end uint64
	code       []byte
}

func loadFrames(tb testing.TB, p *program) *frames {
	tb.Helper()
	data := frameSection(tb, p)
	fr := &frames{}
	if p.arch == insn.AMD64 {
		fr.atEntry = 8
	}
	for len(data) >= 12 {
		n := binary.LittleEndian.Uint32(data)
		body := data[4 : 4+n]
		data = data[4+n:]
		if binary.LittleEndian.Uint32(body) == 0xFFFFFFFF { // CIE
			continue
		}
		start := binary.LittleEndian.Uint64(body[4:])
		size := binary.LittleEndian.Uint64(body[12:])
		fr.entries = append(fr.entries, frameEntry{start: start, end: start + size, code: body[20:]})
	}
	sort.Slice(fr.entries, func(i, j int) bool { return fr.entries[i].start < fr.entries[j].start })
	return fr
}

func frameSection(tb testing.TB, p *program) []byte {
	tb.Helper()
	for _, name := range []string{".debug_frame", ".zdebug_frame"} { // the latter to Go 1.18
		if s := p.image.Section(name); s != nil {
			data, err := s.Data() // decompressed
			if err != nil {
				tb.Fatal(err)
			}
			return data
		}
	}
	tb.Fatal("no .debug_frame")
	return nil
}

// moved returns how far the stack pointer is below its place at entry, before
// the instruction at pc.
func (fr *frames) moved(tb testing.TB, pc uint64) (int, bool) {
	tb.Helper()
	i := sort.Search(len(fr.entries), func(i int) bool { return fr.entries[i].end > pc })
	if i == len(fr.entries) || pc < fr.entries[i].start {
		return 0, false
	}
	const dataAlign = -4 // of every CIE that Go's linker writes
	e := fr.entries[i]
	at, cfa := e.start, fr.atEntry
	for code := e.code; len(code) > 0; {
		op := code[0]
		code = code[1:]
		var step uint64
		switch {
		case op>>6 == 1: // advance_loc
			step = uint64(op & 0x3F)
		case op == 0x02:
			step, code = uint64(code[0]), code[1:]
		case op == 0x03:
			step, code = uint64(binary.LittleEndian.Uint16(code)), code[2:]
		case op == 0x04:
			step, code = uint64(binary.LittleEndian.Uint32(code)), code[4:]
		case op == 0x13: // def_cfa_offset_sf
			var n int64
			n, code = sleb128(code)
			cfa = n * dataAlign
		case op == 0x07, op == 0x08: // undefined, same_value: of a register
			_, code = sleb128(code)
		case op == 0x11: // offset_extended_sf of a register
			_, code = sleb128(code)
			_, code = sleb128(code)
		case op == 0: // padding
		default:
			tb.Fatalf("unknown frame operation %#x", op)
		}
		if at += step; at > pc {
			break
		}
	}
	return int(cfa - fr.atEntry), true
}

func sleb128(b []byte) (int64, []byte) {
	var v int64
	shift := 0
	for i, c := range b {
		v |= int64(c&0x7F) << shift
		shift += 7
		if c&0x80 == 0 {
			if c&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v, b[i+1:]
		}
	}
	return v, nil
}
