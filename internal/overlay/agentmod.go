package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modules returns the flags with which agents that are not in the modules of a program can be imported: a go.mod that also requires
// their modules. It is in the cache, so the program's own does not change.
func (l *listing) modules(agents []agentPackage, programs []listed) ([]string, error) {
	var foreign []agentPackage
	for _, a := range agents {
		if a.foreign {
			foreign = append(foreign, a)
		}
	}
	if len(foreign) == 0 {
		return nil, nil
	}
	refuse := func(format string, args ...any) ([]string, error) {
		return nil, fmt.Errorf("cannot link agent %s: its module %s is not one of the program's, and %s", foreign[0].Dir, foreign[0].Module.Path, fmt.Sprintf(format, args...))
	}
	tc := l.o.Toolchain
	for _, a := range foreign {
		if a.Module == nil {
			return nil, fmt.Errorf("cannot link agent %s: it is in no module", a.Dir)
		}
	}
	base := tc.Mod
	_, err := os.Stat(filepath.Join(filepath.Dir(tc.Mod), "vendor", "modules.txt"))
	switch {
	case tc.Work != "" && tc.Work != "off":
		return refuse("the program is built in a workspace (add the module by go work use %s, or set GOWORK=off)", foreign[0].Module.Dir)
	case base == "" || base == os.DevNull:
		return refuse("the program is in no module (use go mod init)")
	case l.request.mod == "vendor" || l.request.mod == "" && err == nil:
		return refuse("the program's modules are vendored (vendor the agent's as well, or use -mod=readonly)")
	case l.request.modfile != "":
		base = absolute(l.request.modfile, l.dir)
	}
	file, err := l.goMod(base, foreign, programs)
	if err != nil {
		return nil, fmt.Errorf("cannot add the modules of agents to a copy of %s: %w", base, err)
	}
	return []string{"-modfile=" + file, "-mod=readonly"}, nil
}

// goMod returns a go.mod with what another one has, and with the modules of agents.
func (l *listing) goMod(base string, agents []agentPackage, programs []listed) (string, error) {
	inputs := []string{l.o.Root, l.dir, strings.Join(l.request.lists, " ")}
	read := func(name string) (string, error) {
		text, err := os.ReadFile(name)
		if err != nil && (!os.IsNotExist(err) || strings.HasSuffix(name, ".mod")) {
			return "", err
		}
		inputs = append(inputs, name, string(text))
		return string(text), nil
	}
	sumOf := func(mod string) string { return strings.TrimSuffix(mod, ".mod") + ".sum" }
	mod, err := read(base)
	if err != nil {
		return "", err
	}
	sum, err := read(sumOf(base))
	if err != nil {
		return "", err
	}
	for _, a := range agents {
		if _, err := read(a.Module.GoMod); err != nil {
			return "", err
		}
		s, err := read(sumOf(a.Module.GoMod))
		if err != nil {
			return "", err
		}
		if sum += s; sum != "" && !strings.HasSuffix(sum, "\n") {
			sum += "\n"
		}
		inputs = append(inputs, a.ImportPath)
	}
	for _, p := range programs {
		inputs = append(inputs, p.Dir)
	}
	entry := filepath.Join(l.o.cache, agentsPrefix+hashOf(inputs...)[:16])
	err = l.o.fillKept(entry, func(dir string) error {
		files, err := l.resolve(dir, mod, sum, agents)
		if err != nil {
			return err
		}
		return writeFiles(dir, files)
	})
	return filepath.Join(entry, "go.mod"), err
}

// resolve completes a go.mod and a go.sum with the modules of agents.
func (l *listing) resolve(dir, mod, sum string, agents []agentPackage) (map[string][]byte, error) {
	file := filepath.Join(dir, "go.mod")
	for name, text := range map[string]string{"go.mod": mod, "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	before, err := l.readMod(file)
	if err != nil {
		return nil, err
	}
	args := []string{"mod", "edit"}
	replaced, required := map[string]bool{}, map[string]bool{}
	for _, r := range before.Replace {
		replaced[r.Old.Path] = true
	}
	for _, r := range before.Require {
		required[r.Path] = true
	}
	var imports []string
	for _, a := range agents {
		imports = append(imports, a.ImportPath)
		for _, r := range before.Replace {
			if r.Old.Path == a.Module.Path {
				args = append(args, "-dropreplace="+r.Old.String())
			}
		}
		if !required[a.Module.Path] {
			args = append(args, "-require="+a.Module.Path+"@"+firstVersion(a.Module.Path))
		}
		args = append(args, "-replace="+a.Module.Path+"="+a.Module.Dir)
		theirs, err := l.readMod(a.Module.GoMod)
		if err != nil {
			return nil, err
		}
		for _, r := range theirs.Require {
			if !required[r.Path] {
				args = append(args, "-require="+r.String())
				required[r.Path] = true
			}
		}
		for _, r := range theirs.Replace {
			if replaced[r.Old.Path] { // the program's own decides
				continue
			}
			to := r.New.String()
			if r.New.Version == "" {
				to = absolute(r.New.Path, a.Module.Dir)
			}
			args = append(args, "-replace="+r.Old.String()+"="+to)
		}
	}
	if _, err := l.run(l.dir, append(args, file)...); err != nil {
		return nil, err
	}
	lists := without("list", l.request.lists, "mod", "modfile")
	args = slices.Concat([]string{"list", "-deps", "-f", "", "-mod=mod", "-modfile=" + file, "-tags=" + withTag(l.request.tags), "-overlay=" + l.overlay}, lists, []string{"--"}, imports)
	if _, err := l.run(l.dir, args...); err != nil {
		return nil, err
	}
	after, err := l.readMod(file)
	if err != nil {
		return nil, err
	}
	if before.Go != after.Go {
		return nil, fmt.Errorf("the agent requires the line \"go %s\", and the program has \"go %s\", which would change what its code means (raise it, or use an older version of the agent)", after.Go, before.Go)
	}
	files := map[string][]byte{}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}

// firstVersion returns a version that a module with a path can have.
func firstVersion(path string) string {
	at := strings.LastIndex(path, "/v")
	if at >= 0 && strings.Trim(path[at+2:], "0123456789") == "" && path[at+2:] != "" {
		return "v" + path[at+2:] + ".0.0"
	}
	if at := strings.LastIndex(path, ".v"); strings.HasPrefix(path, "gopkg.in/") && at >= 0 {
		return "v" + path[at+2:] + ".0.0"
	}
	return "v0.0.0"
}

// A goMod is what go mod edit -json prints.
type goMod struct {
	Go      string
	Require []moduleVersion
	Replace []struct{ Old, New moduleVersion }
}

type moduleVersion struct{ Path, Version string }

func (m moduleVersion) String() string {
	if m.Version == "" {
		return m.Path
	}
	return m.Path + "@" + m.Version
}

func (l *listing) readMod(file string) (goMod, error) {
	var m goMod
	out, err := l.run(l.dir, "mod", "edit", "-json", file)
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	return m, err
}
