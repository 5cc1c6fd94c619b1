package probe

import (
	"runtime/debug"
	"strconv"
	"strings"
)

// A version is the parsed version of a module, such as "v1.2.3-rc.1+meta".
type version struct {
	numbers [3]int
	pre     []string // of a pre-release; nil for a release
}

// moduleVersion returns the version of a module in a program. ok is false if the program does not contain the module, or if its version is
// unknown: because it was replaced by another module, or because it is the main module and was built from a directory of which no version
// is known, or that was changed after that version. If it was replaced by a directory, the required version counts.
func moduleVersion(info *debug.BuildInfo, path string) (v version, ok bool) {
	if info == nil {
		return v, false
	}
	if info.Main.Path == path { // such as that of a tool in the same module
		return parseMain(info.Main.Version)
	}
	for _, m := range info.Deps {
		if m.Path != path {
			continue
		}
		if r := m.Replace; r != nil && r.Version != "" && r.Version != "(devel)" { // else a directory
			if r.Path != path {
				return v, false
			}
			m = r
		}
		return parseVersion(m.Version)
	}
	return v, false
}

// parseMain parses the version of a main module, which ends with "+dirty" if its directory has changes that are not committed.
func parseMain(s string) (v version, ok bool) {
	if _, build, _ := strings.Cut(s, "+"); strings.Contains(build, "dirty") {
		return version{}, false
	}
	return parseVersion(s)
}

// parseVersion parses the semantic version of a module.
func parseVersion(s string) (v version, ok bool) {
	s, ok = strings.CutPrefix(s, "v")
	s, _, _ = strings.Cut(s, "+")
	s, pre, isPre := strings.Cut(s, "-")
	if isPre {
		v.pre = strings.Split(pre, ".")
	}
	parts := strings.Split(s, ".")
	if !ok || len(parts) != len(v.numbers) {
		return version{}, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return version{}, false
		}
		v.numbers[i] = int(n)
	}
	return v, true
}

// in reports whether the version is at least since and less than until. An empty string means no bound.
func (v version) in(since, until string) bool {
	lo, hasLo := parseVersion(since)
	hi, hasHi := parseVersion(until)
	return (!hasLo || !v.before(lo)) && (!hasHi || v.before(hi))
}

// before reports whether v has a lower precedence than w (semver.org, section 11).
func (v version) before(w version) bool {
	for i, n := range v.numbers {
		if n != w.numbers[i] {
			return n < w.numbers[i]
		}
	}
	if v.pre == nil || w.pre == nil {
		return v.pre != nil && w.pre == nil
	}
	for i := range min(len(v.pre), len(w.pre)) {
		if v.pre[i] != w.pre[i] {
			return preBefore(v.pre[i], w.pre[i])
		}
	}
	return len(v.pre) < len(w.pre)
}

// preBefore compares two identifiers of pre-releases that differ: numbers by value, and before all others.
func preBefore(a, b string) bool {
	n, errA := strconv.ParseUint(a, 10, 64)
	m, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return n < m
	case errA == nil || errB == nil:
		return errA == nil
	}
	return a < b
}
