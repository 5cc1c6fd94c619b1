package overlay

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// patched returns the files of a toolchain that the patches change, with their changes, by name below GOROOT/src, and the fingerprint.
func patched(tc Toolchain, fsys fs.FS) (files map[string][]byte, mark string, err error) {
	list, err := patches(fsys, tc.Minor)
	if err != nil {
		return nil, "", err
	}
	sources := map[string]*source{}
	stock := map[string][]byte{}
	open := func(name string) (*source, error) {
		if s, ok := sources[name]; ok {
			return s, nil
		}
		text, err := tc.source(name)
		if err != nil {
			return nil, err
		}
		s, err := parseSource(name, text)
		sources[name], stock[name] = s, text
		return s, err
	}
	for _, p := range list {
		if p.name == "loader" && tc.NoLoader {
			continue
		}
		if err := p.apply(open); err != nil {
			return nil, "", fmt.Errorf("cannot patch the runtime of %s: patch %s: %w", tc.Version, p.name, err)
		}
	}
	files = map[string][]byte{}
	for name, s := range sources {
		files[name] = s.result()
		if s.file == nil {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, files[name], parser.SkipObjectResolution); err != nil {
			return nil, "", fmt.Errorf("cannot patch the runtime of %s: the result is not valid Go: %w", tc.Version, err)
		}
	}
	packages, err := tc.packages()
	if err != nil {
		return nil, "", fmt.Errorf("cannot list the packages of %s: %w", tc.Version, err)
	}
	mark = fingerprint(tc.Version, stock, files)
	replacer := strings.NewReplacer(stampName, mark, packagesName, " "+strings.Join(packages, " ")+" ")
	for name, text := range files {
		files[name] = []byte(replacer.Replace(string(text)))
	}
	return files, mark, nil
}

// apply applies a patch to the sources that open returns.
func (p patch) apply(open func(name string) (*source, error)) error {
	for _, e := range p.edits {
		s, err := open(e.file)
		if err == nil {
			err = s.apply(e)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.where, err)
		}
	}
	for _, c := range p.code {
		s, err := open(c.file)
		if err != nil {
			return fmt.Errorf("%s: %w", c.where, err)
		}
		s.appended.WriteString("\n" + c.text)
	}
	return nil
}
