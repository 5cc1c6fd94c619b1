package probe

import (
	"runtime/debug"
	"testing"
)

// TestVersionsInOrder compares versions in the order of semver.org.
func TestVersionsInOrder(t *testing.T) {
	order := []string{"v0.9.10", "v1.0.0-alpha", "v1.0.0-alpha.1", "v1.0.0-alpha.beta", "v1.0.0-beta.2", "v1.0.0-beta.11",
		"v1.0.0-rc.1", "v1.0.0", "v1.0.1-0.20260101000000-abcdefabcdef", "v1.0.1", "v1.10.0", "v2.0.0+incompatible"}
	for i, a := range order {
		for j, b := range order {
			v, okV := parseVersion(a)
			w, okW := parseVersion(b)
			if !okV || !okW || v.before(w) != (i < j) {
				t.Errorf("%s before %s: %t", a, b, v.before(w))
			}
		}
	}
	for _, s := range []string{"", "1.2.3", "v1.2", "v1.2.3.4", "v1.x.3", "(devel)", "v-1.2.3", "v99999999999.0.0"} {
		if v, ok := parseVersion(s); ok {
			t.Errorf("%q is %v", s, v)
		}
	}
}

// TestModuleVersion finds the version of a module in build information.
func TestModuleVersion(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Path: "main", Version: "v1.0.0"}, Deps: []*debug.Module{
		{Path: "plain", Version: "v1.2.3"},
		{Path: "local", Version: "v1.2.4", Replace: &debug.Module{Path: "./local"}},
		{Path: "devel", Version: "v1.2.7", Replace: &debug.Module{Path: "./devel", Version: "(devel)"}},
		{Path: "other", Version: "v1.2.5", Replace: &debug.Module{Path: "other", Version: "v1.3.0"}},
		{Path: "fork", Version: "v1.2.6", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.6"}},
	}}
	for path, want := range map[string][3]int{"plain": {1, 2, 3}, "local": {1, 2, 4}, "devel": {1, 2, 7}, "other": {1, 3, 0}, "fork": {}, "main": {1, 0, 0}, "none": {}} {
		if v, ok := moduleVersion(info, path); v.numbers != want || ok != (want != [3]int{}) {
			t.Errorf("%s: %v, %t, want %v", path, v, ok, want)
		}
	}
	for version, want := range map[string]bool{"v1.0.0": true, "v2.0.0+incompatible": true, "v1.0.1-0.20260101000000-abcdefabcdef": true,
		"v1.0.1-0.20260101000000-abcdefabcdef+dirty": false, "v2.0.0+incompatible.dirty": false, "(devel)": false, "": false} {
		info.Main.Version = version
		if v, ok := moduleVersion(info, "main"); ok != want {
			t.Errorf("a main module %q has version %v, %t", version, v, ok)
		}
	}
	if _, ok := moduleVersion(nil, "plain"); ok {
		t.Error("a version without build information")
	}
	v, _ := parseVersion("v1.2.3")
	for _, c := range []struct {
		since, until string
		in           bool
	}{{"", "", true}, {"v1.2.3", "", true}, {"v1.2.4", "", false}, {"", "v1.2.3", false}, {"v1.0.0", "v1.2.4", true}} {
		if v.in(c.since, c.until) != c.in {
			t.Errorf("v1.2.3 in [%s, %s): %t", c.since, c.until, !c.in)
		}
	}
}
