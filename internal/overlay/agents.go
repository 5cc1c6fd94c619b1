package overlay

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// kinds are the values of the flag -agents: what GO_GLTI_AGENT can name, and the package that a program must contain to load it.
var kinds = []struct{ name, pkg string }{
	{"native", "runtime/cgo"},
	{"plugin", "plugin"},
}

func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return strings.Join(names, " and ")
}

// linkVerbs are the commands that link programs.
var linkVerbs = []string{"build", "run", "test", "install"}

// Links reports whether a verb has the flags -agent and -agents.
func Links(verb string) bool { return slices.Contains(linkVerbs, verb) }

// useAgents notes a flag -agent or -agents.
func (r *request) useAgents(verb, name, value string) error {
	if !Links(verb) {
		return fmt.Errorf("cannot use -%s: go %s builds no program", name, verb)
	}
	for _, v := range strings.Split(value, ",") {
		isKind := false
		for _, k := range kinds {
			isKind = isKind || k.name == v
		}
		switch {
		case v == "":
			return fmt.Errorf("cannot use -%s=%s: empty name", name, value)
		case name == "agents" && !isKind:
			return fmt.Errorf("cannot use -agents=%s: unknown kind of agents %q; it has %s (-agent=PACKAGE links an agent into the program)", value, v, kindNames())
		case name == "agents":
			r.kinds = append(r.kinds, v)
		case isKind:
			return fmt.Errorf("cannot use -agent=%s: %s is a kind of agents, not a package (use -agents=%s)", value, v, v)
		default:
			r.agents = append(r.agents, v)
		}
	}
	return nil
}

// linksAgents reports whether a request changes what is linked into programs.
func (r *request) linksAgents() bool { return len(r.agents)+len(r.kinds) > 0 }

// flagOfAgents is the flag that an error names.
func (r *request) flagOfAgents() string {
	if len(r.agents) > 0 {
		return "-agent=" + strings.Join(r.agents, ",")
	}
	return "-agents=" + strings.Join(r.kinds, ",")
}

// checkAgents returns an error if a request has flags that do not agree with its agents.
func (r *request) checkAgents(verb string) error {
	if !r.linksAgents() {
		return nil
	}
	switch r.buildmode {
	case "", "default", "exe", "pie":
	default:
		return fmt.Errorf("cannot use %s with -buildmode=%s: only programs contain or load agents", r.flagOfAgents(), r.buildmode)
	}
	if r.cover && verb != "test" {
		return fmt.Errorf("cannot use %s with -cover: the go command's coverage ignores overlays (go test -cover works)", r.flagOfAgents())
	}
	for _, p := range r.packages {
		if strings.Contains(p, "@") {
			return fmt.Errorf("cannot use %s with %s: the module cache cannot be changed (build it in a directory of its module)", r.flagOfAgents(), p)
		}
	}
	return nil
}

// checkKinds returns an error if programs of a toolchain cannot load agents of a kind.
func (r *request) checkKinds(tc Toolchain) error {
	switch {
	case len(r.kinds) == 0:
	case tc.GOOS != "linux":
		return fmt.Errorf("cannot use %s: programs for %s cannot load agents, only those for linux (-agent=PACKAGE links one into the program)", r.flagOfKinds(), tc.GOOS)
	case !tc.Cgo:
		return fmt.Errorf("cannot use %s: requires cgo (set CGO_ENABLED=1 and install a C compiler, or use -agent=PACKAGE)", r.flagOfKinds())
	}
	return nil
}

func (r *request) flagOfKinds() string { return "-agents=" + strings.Join(r.kinds, ",") }

// A listing runs go list with the overlay and the environment of a build.
type listing struct {
	ctx     context.Context
	o       *Overlay
	verb    string
	request request
	dir     string
	environ []string
	overlay string            // the file for the flag -overlay
	theirs  map[string]string // the user's replacements
}

// linked returns the file for the flag -overlay, with agents linked into the programs of a request, and the flags for their modules. The
// programs import them: an import declaration is added to a file of each.
func (l *listing) linked() (file string, flags []string, err error) {
	files := map[string]string{}
	var imports []string
	for _, k := range kinds {
		if slices.Contains(l.request.kinds, k.name) {
			imports = append(imports, k.pkg)
		}
	}
	var agents []agentPackage
	for _, name := range l.request.agents {
		a, err := l.agent(name)
		if err != nil {
			return "", nil, fmt.Errorf("cannot link agent %s: %w", name, err)
		}
		if slices.ContainsFunc(agents, func(b agentPackage) bool { return a.Dir == b.Dir }) {
			continue
		}
		agents = append(agents, a)
		if a.register == "" {
			imports = append(imports, a.ImportPath)
		}
		for path, text := range a.changed {
			files[path] = text
		}
	}
	programs, err := l.packages(l.dir, l.request.lists, append([]string{"--"}, l.request.packages...)...)
	if err != nil {
		return "", nil, fmt.Errorf("cannot use %s: %w", l.request.flagOfAgents(), err)
	}
	programs = slices.DeleteFunc(programs, func(p listed) bool {
		return slices.ContainsFunc(agents, func(a agentPackage) bool { return a.Dir == p.Dir })
	})
	if err := l.addImports(files, programs, imports, agents); err != nil {
		return "", nil, fmt.Errorf("cannot use %s: %w", l.request.flagOfAgents(), err)
	}
	if flags, err = l.modules(agents, programs); err != nil {
		return "", nil, err
	}
	file, err = l.o.withFiles(l.theirs, files)
	return file, flags, err
}

// addImports adds imports to a file of each program, and the registration of agents that cannot have it themselves.
func (l *listing) addImports(files map[string]string, programs []listed, imports []string, agents []agentPackage) error {
	text, register := "", ""
	for _, path := range imports {
		text += "; import _ " + strconv.Quote(path)
	}
	for i, a := range agents {
		if a.register == "" {
			continue
		}
		if register == "" {
			text += "; import loupeGlti " + strconv.Quote(gltiPath)
		}
		name := fmt.Sprintf("loupeAgent%d", i)
		text += "; import " + name + " " + strconv.Quote(a.ImportPath)
		register += fmt.Sprintf(a.register, name, "loupeGlti")
	}
	found := false
	for _, p := range programs {
		name := p.fileToChange(l.verb)
		switch {
		case name == "":
			continue
		case p.Standard:
			return fmt.Errorf("%s is a package of the toolchain", p.ImportPath)
		case inside(l.o.Toolchain.ModCache, p.Dir):
			return fmt.Errorf("%s is in the module cache, which cannot be changed (build it in a directory of its module)", p.ImportPath)
		}
		found = true
		source, err := l.parse(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		source.at(source.file.Name.End(), text)
		source.appended.WriteString(register)
		files[filepath.Join(p.Dir, name)] = string(source.result())
	}
	if !found {
		what := map[bool]string{true: "tests", false: "programs"}[l.verb == "test"]
		return fmt.Errorf("no %s in the packages", what)
	}
	return nil
}

// fileToChange returns a file of a program, or of the tests of a package, to which imports can be added; nothing if there is no program
// and no test.
func (p listed) fileToChange(verb string) string {
	lists := [][]string{p.GoFiles, p.CgoFiles}
	switch {
	case verb == "test": // a test in a package of its own can import agents that import the tested package
		lists = [][]string{p.XTestGoFiles, p.TestGoFiles}
	case p.Name != "main":
		return ""
	}
	for _, list := range lists {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}
