package testsets

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/franz"
	"github.com/loupe-go/loupe/internal/spans/functions"
	"github.com/loupe-go/loupe/internal/spans/functions/unwind"
	"github.com/loupe-go/loupe/internal/spans/grpc"
	"github.com/loupe-go/loupe/internal/spans/kafkago"
	"github.com/loupe-go/loupe/internal/spans/mongo"
	"github.com/loupe-go/loupe/internal/spans/nethttp"
	"github.com/loupe-go/loupe/internal/spans/otelapi"
	"github.com/loupe-go/loupe/internal/spans/otelsdk"
	"github.com/loupe-go/loupe/internal/spans/pgx"
	"github.com/loupe-go/loupe/internal/spans/redis"
	"github.com/loupe-go/loupe/internal/spans/router"
	"github.com/loupe-go/loupe/internal/spans/sarama"
	"github.com/loupe-go/loupe/internal/spans/sqldb"
)

// Limits of kernels before 6.13. Newer ones may give each function a stack of its own.
const (
	stackLimit = 512 // bytes of a program and the functions that it calls, also if it never does
	stackUnit  = 32  // of each function
)

// TestStackDepth checks that older kernels accept the eBPF programs of the runtime's set and of those that make spans.
func TestStackDepth(t *testing.T) {
	for name, c := range map[string]*csrc.Code{
		"runtime": &csrc.Runtime, "net/http": nethttp.Code(), "router": router.Code(), "grpc": grpc.Code(),
		"database/sql": sqldb.Code(), "redis": redis.Code(), "pgx": pgx.Code(), "mongo": mongo.Code(), "kafka-go": kafkago.Code(), "franz": franz.Code(),
		"sarama": sarama.Code(), "otelapi": otelapi.Code(), "otelsdk": otelsdk.Code(), "functions": functions.Code(), "unwind": unwind.Code(),
	} {
		spec, err := c.EBPF()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.Programs {
			s := stacksOf(p)
			if depth, path := s.depth(p.Name); depth > stackLimit {
				t.Errorf("%s: %d bytes of stack, want at most %d: %s", name, depth, stackLimit, path)
			}
		}
	}
}

// stacks are the sizes of the stacks of a program and its functions, and what these call.
type stacks struct {
	sizes map[string]int
	calls map[string][]string
}

// stacksOf finds where the functions of a program access their stacks.
func stacksOf(p *ebpf.ProgramSpec) stacks {
	s := stacks{map[string]int{}, map[string][]string{}}
	called := map[string]bool{p.Name: true}
	for i := range p.Instructions {
		if ins := &p.Instructions[i]; ins.IsFunctionCall() {
			called[ins.Reference()] = true
		}
	}
	current := p.Name
	frame := map[asm.Register]bool{} // copies of the frame pointer
	for i := range p.Instructions {
		ins := &p.Instructions[i]
		if called[ins.Symbol()] {
			current = ins.Symbol()
			clear(frame)
		}
		class, used := ins.OpCode.Class(), 0
		switch {
		case ins.IsFunctionCall():
			s.calls[current] = append(s.calls[current], ins.Reference())
		case class.IsStore() && ins.Dst == asm.RFP, class.IsLoad() && ins.Src == asm.RFP:
			used = -int(ins.Offset)
		case class != asm.ALU64Class:
		case ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.RegSource:
			frame[ins.Dst] = ins.Src == asm.RFP
		case ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource && frame[ins.Dst]:
			used = -int(ins.Constant)
			frame[ins.Dst] = false
		}
		s.sizes[current] = max(s.sizes[current], used)
	}
	return s
}

// depth returns the largest size of the stacks of a function and those that it calls, and the path.
func (s stacks) depth(function string) (most int, path string) {
	for _, f := range s.calls[function] {
		if d, p := s.depth(f); d > most {
			most, path = d, p
		}
	}
	size := s.sizes[function]
	return most + (max(size, 1)+stackUnit-1)/stackUnit*stackUnit, fmt.Sprintf("%s %d, %s", function, size, path)
}
