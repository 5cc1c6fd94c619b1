package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Change is a difference between two configurations.
type Change struct {
	Path     string // of the key; of an element of tracing.overrides with its index
	Old, New string // as text; secrets are hidden
	Restart  bool   // it has an effect only after a restart of the agent
}

func (c Change) String() string {
	if c.Old == c.New {
		return c.Path + ": changed"
	}
	return fmt.Sprintf("%s: %s, was %s", c.Path, c.New, c.Old)
}

// Diff returns what differs between two configurations, in the order of the reference.
func Diff(from, to *Config) []Change {
	var changes []Change
	values := map[string]reflect.Value{}
	root().walk(reflect.ValueOf(from).Elem(), func(f *field, v reflect.Value) { values[f.path] = v })
	root().walk(reflect.ValueOf(to).Elem(), func(f *field, v reflect.Value) {
		before := values[f.path]
		switch {
		case f.kind == override:
			changes = append(changes, diffOverrides(f, before, v)...)
		case !same(before, v):
			changes = append(changes, Change{f.path, f.render(before), f.render(v), f.restart})
		}
	})
	return changes
}

// same is [reflect.DeepEqual], except that empty lists and mappings are the same as missing ones.
func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func diffOverrides(f *field, from, to reflect.Value) []Change {
	var changes []Change
	text := func(list reflect.Value, i int) string {
		if i >= list.Len() {
			return "nothing"
		}
		return f.renderOverride(list.Index(i))
	}
	for i := range max(from.Len(), to.Len()) {
		before, after := text(from, i), text(to, i)
		if before != after {
			changes = append(changes, Change{fmt.Sprintf("%s[%d]", f.path, i), before, after, f.restart})
		}
	}
	return changes
}

// renderOverride returns an override in flow style on one line.
func (f *field) renderOverride(v reflect.Value) string {
	sections := map[string][]string{}
	o := v.Interface().(Override)
	f.walk(v, func(c *field, value reflect.Value) {
		if c.ofMatch() && value.Len() > 0 || slices.Contains(o.set, c) {
			in := strings.TrimSuffix(c.path, c.key)
			sections[in] = append(sections[in], c.key+": "+c.render(value))
		}
	})
	all := append([]string{"match: {" + strings.Join(sections["match."], ", ") + "}"}, sections[""]...)
	if list := sections["sampling."]; len(list) > 0 {
		all = append(all, "sampling: {"+strings.Join(list, ", ")+"}")
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// keep sets in c what only a restart changes to what it is in the running configuration, and returns those changes and the others.
func (c *Config) keep(running *Config) (now, restart []Change) {
	for _, change := range Diff(running, c) {
		if !change.Restart {
			now = append(now, change)
			continue
		}
		restart = append(restart, change)
		c.at(change.Path).Set(running.at(change.Path))
		c.origins[change.Path] = running.origins[change.Path]
	}
	return now, restart
}
