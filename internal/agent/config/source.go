package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
)

// A Source is where a configuration comes from.
type Source struct {
	File    string   // empty: there is no file
	Environ []string // as of os.Environ
	Flags   []Flag
}

// A Flag is a setting from the command line.
type Flag struct {
	Name  string // as the user has typed it, for messages: "--node", "--set sampling.min_ratio"
	Path  string // of the key
	Value string
}

// FlagPaths returns the path of the key that each flag of the command sets, except --set, which sets any.
func FlagPaths() map[string]string {
	paths := map[string]string{}
	root().walk(reflect.ValueOf(Default()).Elem(), func(f *field, _ reflect.Value) {
		if f.flag != "" {
			paths[f.flag] = f.path
		}
	})
	return paths
}

// Load loads the configuration. The error is Problems if the configuration is invalid, and another one if the file cannot be read.
func (s Source) Load() (*Config, error) {
	var doc []byte
	if s.File != "" {
		var err error
		if doc, err = read(s.File, false); err != nil {
			return nil, err
		}
	}
	return s.load(doc)
}

// load is Load with the contents of the file.
func (s Source) load(doc []byte) (*Config, error) {
	c := Default()
	c.doc = doc
	c.environ = newEnvironment(s.Environ)
	problems := decode(s.File, doc, c)
	problems = append(problems, c.readEnvironment()...)
	for _, f := range s.Flags {
		if err := c.set(f.Path, f.Value, Origin{Flag: f.Name}); err != nil {
			problems = append(problems, Problem{Origin{Flag: f.Name}, "", err.Error()})
		}
	}
	c.derive()
	if len(problems) == 0 {
		problems = c.check()
	}
	if len(problems) > 0 {
		return nil, problems.sorted()
	}
	return c, nil
}

// read reads a file of at most MaxFile bytes. A larger one is returned as MaxFile+1 bytes. A pipe can be read once: regular refuses it.
func read(name string, regular bool) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	if info.IsDir() || regular && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read the configuration: %s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return doc, nil
}

// set sets a key to a value as text.
func (c *Config) set(path, value string, origin Origin) error {
	f := root().find(path)
	if f != nil && f.alias != "" {
		path, f = f.alias, root().find(f.alias)
	}
	switch {
	case f == nil:
		return errors.New(unknownPath(path))
	case f.kind == section:
		return fmt.Errorf("%s is a section: set one of its keys, such as %s", f.path, f.fields[0].path)
	}
	v, err := f.fromText(value)
	if err != nil {
		return err
	}
	c.at(path).Set(v)
	c.origins[path] = origin
	return nil
}

// unknownPath is the message for a path that does not exist.
func unknownPath(path string) string {
	var paths []string
	root().walk(reflect.ValueOf(Default()).Elem(), func(f *field, _ reflect.Value) { paths = append(paths, f.path) })
	message := "unknown key " + quote(path)
	if similar := nearest(path, paths); similar != "" {
		return message + ", did you mean " + similar + "?"
	}
	if other := elsewhere(root(), path[strings.LastIndexByte(path, '.')+1:]); other != "" {
		return message + ", did you mean " + other + "?"
	}
	return message
}

// portHTTP finds the port for http/protobuf in an endpoint.
var portHTTP = regexp.MustCompile(`:4318(?:/.*)?$`)

// derive sets the defaults that depend on something.
func (c *Config) derive() {
	if c.Node == "" {
		c.Node, _ = os.Hostname()
	}
	if otlp := &c.Output.OTLP; otlp.Protocol == "auto" {
		otlp.Protocol = "grpc"
		if portHTTP.MatchString(otlp.Endpoint) {
			otlp.Protocol = "http/protobuf"
		}
	}
}
