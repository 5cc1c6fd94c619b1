package insntruth

import (
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// On a whole program, nearly every reference is to something that is there,
// and each function's references are in order.
func TestRefsOfPrograms(t *testing.T) {
	eachTarget(t, func(t *testing.T, p *program) {
		inside, outside := 0, 0
		for _, f := range p.funcs {
			c, _ := p.code(f)
			refs, err := insn.Refs(c)
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			last := c.Entry
			for _, r := range refs {
				if r.PC < last || !within(c, r.PC) {
					t.Errorf("%s: reference at %#x after one at %#x", f.Name, r.PC, last)
				}
				last = r.PC
				if p.isData(r.Addr, r.Size) || r.Addr-p.base <= uint64(len(p.text)) {
					inside++
				} else {
					outside++
				}
			}
		}
		if inside < 10_000 || outside*200 > inside {
			t.Errorf("%d references into the program, %d outside of it", inside, outside)
		}
	})
}

func BenchmarkRefs(b *testing.B) {
	for _, arch := range []string{insn.AMD64, insn.ARM64} {
		b.Run(arch, func(b *testing.B) {
			c := largeFunction(b, arch)
			b.SetBytes(int64(len(c.Bytes)))
			b.ReportMetric(float64(len(c.Bytes)), "bytes")
			for b.Loop() {
				if _, err := insn.Refs(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
