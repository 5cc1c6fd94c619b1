package sarama

import (
	"maps"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/place"
)

// Bounds of the search for the functions in which a program receives messages.
const (
	maxCalls  = 3   // calls between ConsumeClaim and the function
	maxClaims = 256 // functions
)

// claims returns a function that finds the functions of an executable in which it may receive messages of its consumer groups: methods
// ConsumeClaim, function literals in them, and functions of the same package that these call. It searches only once.
func claims(module string) func(*gobin.Binary) ([]gobin.Func, error) {
	var found []gobin.Func
	var err error
	searched := false
	return func(bin *gobin.Binary) ([]gobin.Func, error) {
		if !searched {
			searched = true
			found, err = findClaims(bin, module)
		}
		return found, err
	}
}

func findClaims(bin *gobin.Binary, module string) ([]gobin.Func, error) {
	found := map[uint64]gobin.Func{}
	var work []gobin.Func
	add := func(f gobin.Func) {
		if _, ok := found[f.Entry]; !ok && len(found) < maxClaims {
			found[f.Entry] = f
			work = append(work, f)
		}
	}
	for f := range bin.Functions() {
		if isClaim(f.Name) && !strings.HasPrefix(f.Name, module+".") {
			add(f)
		}
	}
	for range maxCalls {
		list := work
		work = nil
		for _, f := range list {
			calls, err := bin.CallSites(f)
			if err != nil {
				return nil, err
			}
			for _, c := range calls {
				if callee, ok := bin.FuncForPC(c.Target); ok && callee.Entry == c.Target && place.Package(callee.Name) == place.Package(f.Name) {
					add(callee)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b gobin.Func) int { return strings.Compare(a.Name, b.Name) }), nil
}

// isClaim reports whether a function is a method ConsumeClaim, or a function literal in one.
func isClaim(name string) bool {
	const method = ".ConsumeClaim"
	i := strings.Index(name, method)
	if i < 0 {
		return false
	}
	rest := name[i+len(method):]
	return rest == "" || rest[0] == '.' || rest[0] == '-'
}
