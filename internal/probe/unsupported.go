package probe

import (
	"runtime/debug"
	"slices"

	"github.com/loupe-go/loupe/internal/gobin"
)

// warnVersion warns if the program has functions of the set's modules, but in versions that the set does not support, or in unknown ones.
func (pl *planner) warnVersion(set *Set) {
	var found *Declaration
	for i := range set.Probes {
		d := &set.Probes[i]
		if len(d.Modules) == 0 || d.Modules[0].Path == Std || !d.inRelease(pl.bin.Version().Minor) {
			continue
		}
		if !slices.ContainsFunc(d.Modules, func(m Module) bool { return !m.In(pl.bin) }) {
			return
		}
		if found == nil && slices.ContainsFunc(d.Funcs, func(name string) bool {
			_, ok := pl.bin.LookupFunc(name)
			return ok
		}) {
			found = d
		}
	}
	if found == nil {
		return
	}
	path := found.Modules[0].Path
	for _, m := range buildModules(pl.bin) {
		if m.Path == path && m.Version != "(devel)" && m.Version != "" {
			pl.warn("%s: %s of %s is not supported", found.Without, m.Version, path)
			return
		}
	}
	pl.warn("%s: the executable does not contain the version of %s", found.Without, path)
}

// buildModules returns the modules of an executable, as far as it names them.
func buildModules(bin *gobin.Binary) []*debug.Module {
	if info := bin.BuildInfo(); info != nil {
		return append([]*debug.Module{&info.Main}, info.Deps...)
	}
	return nil
}
