package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// gltiPath is the import path of package glti.
const gltiPath = "github.com/loupe-go/loupe/glti"

// A listed package is what go list prints.
type listed struct {
	Dir, ImportPath, Name string
	Standard              bool
	GoFiles, CgoFiles     []string
	TestGoFiles           []string
	XTestGoFiles          []string
	Module                *struct{ Path, Dir, GoMod, GoVersion string }
}

// listedFields selects these fields.
const listedFields = "-json=Dir,ImportPath,Name,Standard,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Module"

// packages lists packages in a directory.
func (l *listing) packages(dir string, flags []string, patterns ...string) ([]listed, error) {
	out, err := l.run(dir, slices.Concat([]string{"list", "-find", listedFields, "-overlay=" + l.overlay, "-tags=" + withTag(l.request.tags)}, flags, patterns)...)
	if err != nil {
		return nil, err
	}
	var list []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		list = append(list, p)
	}
}

// run runs the go command of the build, and returns its output.
func (l *listing) run(dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(l.ctx, filepath.Join(l.o.Root, "bin", "go"), args...)
	cmd.Dir, cmd.Env = dir, l.environ
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case err != nil && l.ctx.Err() != nil:
		return nil, l.ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("go %s: %s", args[0], problem(stderr.String(), err))
	}
	return out, nil
}

// problem returns the first line of what the go command printed that is not about its progress.
func problem(stderr string, err error) string {
	for line := range strings.SplitSeq(stderr, "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "go: ")
		if line != "" && !strings.HasPrefix(line, "downloading ") && !strings.HasPrefix(line, "finding ") && !strings.HasPrefix(line, "# ") {
			return strings.TrimSuffix(line, "; to add it:")
		}
	}
	return err.Error()
}

// An agentPackage is the package of an agent that is linked into programs.
type agentPackage struct {
	listed
	foreign bool              // it is not in the modules of the program
	changed map[string]string // the files that are changed, by their path
	// register is what programs that import the agent contain to register it, as its own files cannot be changed: a format for the names of
	// the packages of the agent and glti. It is empty if the agent registers itself.
	register string
}

// isDirectory reports whether the name of an agent is a directory, by the rules of the go command.
func isDirectory(name string) bool {
	return name == "." || name == ".." || filepath.IsAbs(name) || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../")
}

// agent finds the package of an agent.
func (l *listing) agent(name string) (agentPackage, error) {
	if strings.Contains(name, "...") {
		return agentPackage{}, errors.New("it is a pattern, not a package")
	}
	if !isDirectory(name) {
		list, err := l.packages(l.dir, l.request.lists, "--", name)
		if err != nil {
			if strings.Contains(err.Error(), "-mod=vendor") || strings.Contains(err.Error(), "vendor directory") {
				return agentPackage{}, fmt.Errorf("%w (import it in a file with a build tag and run go mod vendor, or use -mod=readonly)", err)
			}
			return agentPackage{}, fmt.Errorf("%w (add its module by go get, or use a directory such as ./%s)", err, filepath.Base(name))
		}
		return l.prepared(agentPackage{listed: list[0]})
	}
	dir := absolute(name, l.dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return agentPackage{}, errors.New("no such directory")
	}
	// The agent's own module says which package it is. It need not be in the workspace of the program.
	outside := *l
	outside.environ = append(slices.Clone(l.environ), "GOWORK=off")
	list, err := outside.packages(dir, []string{"-modfile=", "-mod=readonly"}, ".")
	if err != nil {
		return agentPackage{}, err
	}
	a := agentPackage{listed: list[0]}
	known, err := l.packages(l.dir, l.request.lists, "--", a.ImportPath)
	a.foreign = err != nil || len(known) != 1 || !sameFile(known[0].Dir, a.Dir)
	return l.prepared(a)
}

// sameFile reports whether two paths are of the same file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// parse parses a file of the user, as the user's overlay has it.
func (l *listing) parse(path string) (*source, error) {
	from := path
	if to, ok := l.theirs[path]; ok {
		from = to
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, err
	}
	return parseSource(path, text)
}

// prepared changes the files of an agent. A package main, as that of a plugin is, gets another name, because programs cannot be imported.
// A package with InitGltiAgent that does not register itself gets a function that does; if it is in the module cache, the programs get it.
func (l *listing) prepared(a agentPackage) (agentPackage, error) {
	var files []*source
	var registers, shutdown bool
	var init *source
	for _, name := range slices.Concat(a.GoFiles, a.CgoFiles) {
		s, err := l.parse(filepath.Join(a.Dir, name))
		if err != nil {
			return a, err
		}
		files = append(files, s)
		registers = registers || s.file != nil && calls(s.file, "RegisterAgent")
		if _, err := s.function("func InitGltiAgent"); err == nil {
			init = s
		}
		if _, err := s.function("func ShutdownGltiAgent"); err == nil {
			shutdown = true
		}
	}
	if !registers && init == nil {
		return a, errors.New("it has neither a function InitGltiAgent nor a call of glti.RegisterAgent")
	}
	a.changed = map[string]string{}
	for _, s := range files {
		changed := false
		if a.Name == "main" {
			s.at(s.file.Name.End(), "agent")
			changed = true
		}
		if s == init && !registers {
			text, err := registration(s, a.ImportPath, shutdown)
			if err != nil {
				return a, err
			}
			s.appended.WriteString(text)
			changed = true
		}
		if changed {
			a.changed[s.name] = string(s.result())
		}
	}
	if len(a.changed) == 0 || !inside(l.o.Toolchain.ModCache, a.Dir) {
		return a, nil
	}
	if a.Name == "main" {
		return a, errors.New("it is a package main in the module cache, which cannot be changed (use a directory, or another package of its module)")
	}
	if _, err := l.packages(l.dir, l.request.lists, "--", gltiPath); err != nil {
		return a, fmt.Errorf("%w (add it by go get %s)", err, gltiPath)
	}
	a.changed, a.register = nil, registerCall("%[1]s.", "%[2]s", a.ImportPath, shutdown)
	return a, nil
}

// calls reports whether a file calls a function of a package.
func calls(file *ast.File, name string) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == name {
				found = true
			}
		}
		return true
	})
	return found
}

// registration returns the code that registers an agent, for the file with its function InitGltiAgent.
func registration(s *source, path string, shutdown bool) (string, error) {
	fn, err := s.function("func InitGltiAgent")
	if err != nil {
		return "", err
	}
	glti := ""
	for _, i := range s.file.Imports {
		if imported, err := strconv.Unquote(i.Path.Value); err == nil && imported == gltiPath {
			glti = "glti"
			if i.Name != nil {
				glti = i.Name.Name
			}
		}
	}
	if params := fn.Type.Params.List; glti == "" || glti == "." || glti == "_" || fn.Type.Results.NumFields() > 0 || fn.Type.Params.NumFields() != 1 ||
		types.ExprString(params[0].Type) != "*"+glti+".GLTIEnv" {
		return "", errors.New("InitGltiAgent must be a func(*glti.GLTIEnv)")
	}
	return registerCall("", glti, path, shutdown), nil
}

// registerCall returns the code that registers an agent. The functions of the agent have a prefix.
func registerCall(prefix, glti, path string, shutdown bool) string {
	end := ""
	if shutdown {
		end = ", Shutdown: " + prefix + "ShutdownGltiAgent"
	}
	return fmt.Sprintf("\n\nfunc init() { %s.RegisterAgent(%s.Agent{Name: %q, Init: %sInitGltiAgent%s}) }\n", glti, glti, path, prefix, end)
}
