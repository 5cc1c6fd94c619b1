package testsets

import (
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/malloc"
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
	"github.com/loupe-go/loupe/internal/testsets/parcel"
	"github.com/loupe-go/loupe/internal/testsets/tally"
)

// TestCode checks that the machine code of sets leaves alone what stubs do not save, goes only where it is seen to go, and makes
// system calls only in the one function that reads memory.
func TestCode(t *testing.T) {
	for name, c := range map[string]struct {
		code  *csrc.Code
		calls int
	}{
		"parcel":       {parcel.Code(), 1},
		"tally":        {tally.Code(), 0},
		"allocations":  {malloc.Code(), 0},
		"database/sql": {sqldb.Code(), 1},
		"redis":        {redis.Code(), 1},
		"pgx":          {pgx.Code(), 1},
		"mongo":        {mongo.Code(), 1},
		"kafka-go":     {kafkago.Code(), 1},
		"franz":        {franz.Code(), 1},
		"sarama":       {sarama.Code(), 1},
		"net/http":     {nethttp.Code(), 1},
		"grpc":         {grpc.Code(), 1},
		"router":       {router.Code(), 1},
		"otelapi":      {otelapi.Code(), 1},
		"otelsdk":      {otelsdk.Code(), 1},
		"functions":    {functions.Code(), 1},
		"unwind":       {unwind.Code(), 0},
	} {
		n, _ := c.code.Native("amd64")
		calls := 0
		for at := 0; at < len(n.Code); {
			inst, err := x86asm.Decode(n.Code[at:], 64)
			if err != nil {
				t.Fatalf("%s: at %#x: %v", name, at, err)
			}
			for _, arg := range inst.Args {
				if r, ok := arg.(x86asm.Reg); ok && r >= x86asm.F0 && r <= x86asm.X15 {
					t.Errorf("%s: at %#x: %v uses a vector register", name, at, inst)
				}
			}
			switch inst.Op {
			case x86asm.CALL, x86asm.JMP:
				rel, ok := inst.Args[0].(x86asm.Rel)
				if to := at + inst.Len + int(rel); !ok || to < 0 || to >= len(n.Code) {
					t.Errorf("%s: at %#x: %v leaves the code", name, at, inst)
				}
			case x86asm.SYSCALL:
				calls++
			case x86asm.INT, x86asm.STD, x86asm.UD2:
				t.Errorf("%s: at %#x: %v", name, at, inst)
			}
			at += inst.Len
		}
		if calls != c.calls {
			t.Errorf("%s: %d places make system calls, want %d", name, calls, c.calls)
		}
	}
}
