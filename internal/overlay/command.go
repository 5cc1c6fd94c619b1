package overlay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Command is a go command that uses an overlay.
type Command struct {
	Path string
	Args []string // with the name of the program
	Env  []string
}

// Prepare returns the go command for a verb of [Verbs] and its arguments, with the overlay for the toolchain that the go command uses
// in the current directory, or in that of the flag -C. The overlay is in a cache directory.
func Prepare(ctx context.Context, verb string, args []string, cache string) (*Command, error) {
	if !slices.Contains(Verbs, verb) {
		return nil, fmt.Errorf("go %s takes no overlay", verb)
	}
	// The directory decides which toolchain and which GOFLAGS the go command uses.
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	first, err := parseArgs(verb, args, "")
	if err != nil {
		return nil, err
	}
	if first.dir != "" {
		dir = absolute(first.dir, dir)
	}
	tc, err := Find(ctx, dir)
	if err != nil {
		return nil, err
	}
	r, err := parseArgs(verb, args, tc.Flags)
	if err != nil {
		return nil, err
	}
	tc.NoLoader = hasTag(r.tags, NoLoaderTag)
	o, err := Make(tc, cache)
	if err != nil {
		return nil, err
	}
	return o.command(verb, r, dir, os.Environ())
}

// command returns the go command for a request.
func (o *Overlay) command(verb string, r request, dir string, environ []string) (*Command, error) {
	file := o.File
	if r.overlay != "" {
		var err error
		if file, err = o.merged(r.overlay, dir); err != nil {
			return nil, err
		}
	}
	c := &Command{Path: filepath.Join(o.Root, "bin", "go"), Args: []string{"go", verb}}
	if r.dir != "" {
		c.Args = append(c.Args, "-C", r.dir)
	}
	c.Args = append(c.Args, "-overlay="+file, "-tags="+withTag(r.tags))
	c.Args = append(c.Args, r.rest...)
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); name != "GOROOT" && name != "GOTOOLCHAIN" {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "GOROOT="+o.Root, "GOTOOLCHAIN=local")
	return c, nil
}

// Flags returns the flags of go build for the overlay. A user's own tags are to be added to the flag -tags.
func (o *Overlay) Flags() []string { return []string{"-overlay=" + o.File, "-tags=" + Tag} }
