package tracefile

import (
	"context"

	"github.com/loupe-go/loupe/trace"
)

// Validate looks for all problems of a trace of the wire format. With an error the report is about what was read before it;
// it is nil when there is no trace.
func Validate(ctx context.Context, in *Input, opt trace.ValidateOptions) (*trace.Report, error) {
	if err := in.NeedWire(); err != nil {
		return nil, err
	}
	opt.MaxMemory = in.MaxMemory
	r, err := trace.Validate(interruptible{ctx, in}, opt)
	if err != nil {
		err = in.damage(err)
	}
	return r, err
}
