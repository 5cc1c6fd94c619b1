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
	if err := r.checkKinds(tc); err != nil {
		return nil, err
	}
	tc.NoLoader = hasTag(r.tags, NoLoaderTag)
	o, err := Make(tc, cache)
	if err != nil {
		return nil, err
	}
	return o.command(ctx, verb, r, dir, os.Environ())
}

// command returns the go command for a request.
func (o *Overlay) command(ctx context.Context, verb string, r request, dir string, environ []string) (*Command, error) {
	var env []string
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); name != "GOROOT" && name != "GOTOOLCHAIN" {
			env = append(env, kv)
		}
	}
	env = append(env, "GOROOT="+o.Root, "GOTOOLCHAIN=local")
	var theirs map[string]string
	if r.overlay != "" {
		var err error
		if theirs, err = o.user(r.overlay, dir); err != nil {
			return nil, err
		}
	}
	file, err := o.withFiles(theirs, nil)
	if err != nil {
		return nil, err
	}
	var flags []string
	if r.linksAgents() {
		l := &listing{ctx: ctx, o: o, verb: verb, request: r, dir: dir, environ: env, overlay: file, theirs: theirs}
		if file, flags, err = l.linked(); err != nil {
			return nil, err
		}
	}
	c := &Command{Path: filepath.Join(o.Root, "bin", "go"), Args: []string{"go", verb}, Env: env}
	if r.dir != "" {
		c.Args = append(c.Args, "-C", r.dir)
	}
	c.Args = append(c.Args, "-overlay="+file, "-tags="+withTag(r.tags))
	if len(flags) > 0 { // for modules; they replace those of the user
		r.rest = slices.Concat(flags, without(verb, r.rest, "mod", "modfile"))
	}
	c.Args = append(c.Args, r.rest...)
	return c, nil
}

// Flags returns the flags of go build for the overlay. A user's own tags are to be added to the flag -tags.
func (o *Overlay) Flags() []string { return []string{"-overlay=" + o.File, "-tags=" + Tag} }
