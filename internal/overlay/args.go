package overlay

import (
	"fmt"
	"slices"
	"strings"
)

// Verbs are the go commands that an overlay can be used with.
var Verbs = []string{"build", "run", "test", "install", "vet", "list"}

// valueFlags are the flags of these commands that take a value, which may be the next argument. TestFlagTable compares them with the
// sources of the go command of Go 1.21 to 1.27.
var valueFlags = strings.Fields(`C asmflags buildmode compiler covermode coverpkg coverprofile debug-actiongraph debug-runtime-trace
	debug-trace exec f gccgoflags gcflags installsuffix ldflags mod modfile o overlay p pgo pkgdir reuse tags toolexec vettool`)

// testFlags are the flags that only go test has, and that take a value. Each may begin with "test.".
var testFlags = strings.Fields(`bench benchtime blockprofile blockprofilerate count cpu cpuprofile fuzz fuzzminimizetime fuzztime list
	memprofile memprofilerate mutexprofile mutexprofilefraction outputdir parallel run shuffle skip timeout trace vet`)

// testBools are the flags of go test that take no value, besides those of go build.
var testBools = strings.Fields(`a artifacts asan benchmem c cover failfast fullpath i json linkshared modcacherw msan n race short
	trimpath v work x buildvcs`)

// agentFlags are the flags of Loupe's own, which the go command does not have. They take a value.
var agentFlags = []string{"agent", "agents"}

// listFlags are the flags of a build that decide which packages and files it has. go list has them too.
var listFlags = []string{"asan", "mod", "modfile", "msan", "race"}

// A flagUse is a flag of a command line with its value.
type flagUse struct {
	name, value string
	first, end  int // the arguments
}

// takesValue reports whether a flag of a go command takes a value.
func takesValue(verb, name string) bool {
	switch {
	case slices.Contains(agentFlags, name):
		return true
	case slices.Contains(valueFlags, name):
		return !(name == "f" && verb != "list") && !(name == "vettool" && verb != "vet")
	case verb == "vet": // flags of analyzers
		return name == "c" || strings.Contains(name, ".")
	case verb == "test":
		return slices.Contains(testFlags, strings.TrimPrefix(name, "test."))
	}
	return false
}

// flagsOf returns the flags of a go command line, as the go command understands it, and its packages or files.
func flagsOf(verb string, args []string) (uses []flagUse, packages []string) {
	listed, inList, afterUnknown := false, false, false
	for i := 0; i < len(args); {
		arg := args[i]
		wasUnknown := afterUnknown
		afterUnknown = false
		if len(arg) < 2 || arg[0] != '-' {
			// go test accepts flags after packages, and after what may be the value of a flag of the test.
			if verb != "test" {
				return uses, operands(verb, args[i:])
			}
			if listed && !inList && !wasUnknown {
				return uses, packages
			}
			inList = inList || !listed
			listed = true
			if inList {
				packages = append(packages, arg)
			}
			i++
			continue
		}
		inList = false
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		switch {
		case verb == "test" && (arg == "--" || name == "args"):
			return uses, packages
		case arg == "--":
			return uses, operands(verb, args[i+1:])
		}
		use := flagUse{name, value, i, i + 1}
		switch {
		case !hasValue && takesValue(verb, name):
			if i+1 == len(args) {
				return uses, packages // the go command reports it
			}
			use.value, use.end = args[i+1], i+2
		case verb == "test" && !takesValue(verb, name) && !slices.Contains(testBools, strings.TrimPrefix(name, "test.")):
			listed, afterUnknown = true, !hasValue
		}
		uses = append(uses, use)
		i = use.end
	}
	return uses, packages
}

// operands returns the packages or files of what follows the flags: for go run, the arguments of the program follow them.
func operands(verb string, args []string) []string {
	n := len(args)
	if verb == "run" {
		for n = 0; n < len(args) && isGo(args[n]); n++ {
		}
		n = min(max(n, 1), len(args))
	}
	return args[:n]
}

// without returns the arguments of a go command without some flags.
func without(verb string, args []string, names ...string) []string {
	var rest []string
	at := 0
	uses, _ := flagsOf(verb, args)
	for _, u := range uses {
		if slices.Contains(names, u.name) {
			rest = append(rest, args[at:u.first]...)
			at = u.end
		}
	}
	return append(rest, args[at:]...)
}

// splitFlags splits the value of GOFLAGS, which may have quotes.
func splitFlags(text string) ([]string, error) {
	var list []string
	for {
		text = strings.TrimLeft(text, " \t\n\r")
		if text == "" {
			return list, nil
		}
		if quote := text[0]; quote == '\'' || quote == '"' {
			end := strings.IndexByte(text[1:], quote)
			if end < 0 {
				return nil, fmt.Errorf("GOFLAGS: unterminated %c", quote)
			}
			list, text = append(list, text[1:1+end]), text[1+end+1:]
			continue
		}
		end := strings.IndexAny(text, " \t\n\r")
		if end < 0 {
			end = len(text)
		}
		list, text = append(list, text[:end]), text[end:]
	}
}

// A request is what a go command line, and GOFLAGS, mean for an overlay.
type request struct {
	dir     string // -C
	overlay string // -overlay of the user
	tags    string // -tags of the user
	rest    []string

	agents    []string // -agent
	kinds     []string // -agents
	mod       string   // -mod
	modfile   string   // -modfile
	buildmode string   // -buildmode
	cover     bool     // -cover
	packages  []string // the packages or files of the command line
	lists     []string // the arguments that are listFlags
}

// parseArgs parses the arguments of a go command and the value of GOFLAGS.
func parseArgs(verb string, args []string, goflags string) (request, error) {
	defaults, err := splitFlags(goflags)
	if err != nil {
		return request{}, err
	}
	var r request
	for _, d := range defaults {
		name, value, _ := strings.Cut(strings.TrimLeft(d, "-"), "=")
		if err := r.use(name, value); err != nil {
			return request{}, err
		}
	}
	at := 0
	uses, packages := flagsOf(verb, args)
	r.packages = packages
	for _, u := range uses {
		if err := r.use(u.name, u.value); err != nil {
			return request{}, err
		}
		if slices.Contains(listFlags, u.name) {
			r.lists = append(r.lists, args[u.first:u.end]...)
		}
		switch u.name {
		case "agent", "agents":
			err = r.useAgents(verb, u.name, u.value)
			fallthrough
		case "C", "overlay", "tags":
			r.rest = append(r.rest, args[at:u.first]...)
			at = u.end
		}
		if err != nil {
			return request{}, err
		}
	}
	r.rest = append(r.rest, args[at:]...)
	return r, r.checkAgents(verb)
}

// use notes a flag. A later one replaces an earlier one.
func (r *request) use(name, value string) error {
	switch {
	case name == "C":
		r.dir = value
	case name == "overlay":
		r.overlay = value
	case name == "tags":
		r.tags = value
	case name == "mod":
		r.mod = value
	case name == "modfile":
		r.modfile = value
	case name == "buildmode":
		r.buildmode = value
	case name == "cover" || name == "coverpkg" || name == "covermode":
		r.cover = value != "false"
	case name == "compiler" && value != "gc":
		return fmt.Errorf("cannot use -compiler=%s: the tool interface requires the gc compiler", value)
	case name == "linkshared" && value != "false":
		return fmt.Errorf("cannot use -linkshared: the shared standard library does not have the tool interface")
	}
	return nil
}

// splitTags splits the value of the flag -tags.
func splitTags(tags string) []string {
	return strings.FieldsFunc(tags, func(r rune) bool { return r == ',' || r == ' ' })
}

func hasTag(tags, tag string) bool { return slices.Contains(splitTags(tags), tag) }

// withTag adds the build tag of package glti to the user's tags.
func withTag(tags string) string {
	list := splitTags(tags)
	if !slices.Contains(list, Tag) {
		list = append(list, Tag)
	}
	return strings.Join(list, ",")
}
