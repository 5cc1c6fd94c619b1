package program

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/loupe-go/loupe/internal/overlay"
)

// GoBuild returns the command that builds a program with the arguments of go build. With hooks the program has the tool interface, as by
// loupe go build.
func GoBuild(ctx context.Context, hooks bool, args ...string) (*exec.Cmd, error) {
	if !hooks {
		return exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...), nil
	}
	cache, err := overlay.CacheDir()
	if err != nil {
		return nil, err
	}
	c, err := overlay.Prepare(ctx, "build", args, cache)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, c.Path, c.Args[1:]...)
	cmd.Env = c.Env
	return cmd, nil
}

// BuildCounter compiles the native agent glti/samples/counter to a file. It requires a C compiler.
func BuildCounter(ctx context.Context, to string) error {
	cc := exec.CommandContext(ctx, "cc", "-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-I", "glti/include", "-o", to, "glti/samples/counter/counter.c")
	if out, err := cc.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile the native agent: %w\n%s", err, out)
	}
	return nil
}
