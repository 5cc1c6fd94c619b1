package otlp

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variables reads environment variables and collects warnings about them.
type variables struct {
	lookup   func(string) (string, bool)
	warnings []string
}

func (v *variables) warn(format string, args ...any) {
	v.warnings = append(v.warnings, fmt.Sprintf(format, args...))
}

// text returns the first of several variables that is set, and its name. Both are empty if no variable is set.
func (v *variables) text(names ...string) (name, value string) {
	for _, name := range names {
		if value, ok := v.lookup(name); ok {
			if value = strings.TrimSpace(value); value != "" {
				return name, value
			}
		}
	}
	return "", ""
}

// number returns the first of several variables that is set, or def.
func (v *variables) number(least, def int, names ...string) int {
	name, value := v.text(names...)
	if name == "" {
		return def
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || int(n) < least {
		using := strconv.Itoa(def)
		if def == math.MaxInt {
			using = "no limit"
		}
		v.warn("%s=%q is invalid: must be a number of at least %d; using %s", name, value, least, using)
		return def
	}
	return int(n)
}

// duration is number for a variable in milliseconds.
func (v *variables) duration(least int, def time.Duration, names ...string) time.Duration {
	return time.Duration(v.number(least, int(def/time.Millisecond), names...)) * time.Millisecond
}

// timeout is duration with 0 for no limit.
func (v *variables) timeout(def time.Duration, names ...string) time.Duration {
	if d := v.duration(0, def, names...); d > 0 {
		return d
	}
	return noLimit
}

// boolean returns the first of several variables that is set, or false.
func (v *variables) boolean(names ...string) bool {
	name, value := v.text(names...)
	switch strings.ToLower(value) {
	case "true":
		return true
	case "", "false":
	default:
		v.warn("%s=%q is invalid: must be true or false; using false", name, value)
	}
	return false
}

// choice returns the first of several variables that is set, or the first choice if no variable is set or its value is
// not a choice.
func (v *variables) choice(choices []string, names ...string) string {
	name, value := v.text(names...)
	if name == "" {
		return choices[0]
	}
	if lower := strings.ToLower(value); slices.Contains(choices, lower) {
		return lower
	}
	v.warn("%s=%q is invalid: must be %s; using %s", name, value, either(choices), choices[0])
	return choices[0]
}

// list returns the elements of a variable with a list, without repetitions. "none" must be alone, and stands for an empty list.
func (v *variables) list(name string, choices, def []string) ([]string, error) {
	_, value := v.text(name)
	if value == "" {
		return def, nil
	}
	var list []string
	for element := range strings.SplitSeq(strings.ToLower(value), ",") {
		element = strings.TrimSpace(element)
		switch {
		case element == "" || slices.Contains(list, element):
		case element == "none" || slices.Contains(choices, element):
			list = append(list, element)
		default:
			return nil, fmt.Errorf("%s: unsupported value %q: must be %s", name, element, either(append(slices.Clone(choices), "none")))
		}
	}
	if !slices.Contains(list, "none") {
		return list, nil
	}
	if len(list) > 1 {
		return nil, fmt.Errorf("%s=%q: none cannot be combined with another value", name, value)
	}
	return nil, nil
}

// pairs splits a list of the form KEY=VALUE,KEY=VALUE and decodes its percent-encoded characters. The number of the first
// invalid pair is bad, 0 if all are valid. The pairs may be secret.
func pairs(list string) (keys, values []string, bad int) {
	n := 0
	for pair := range strings.SplitSeq(list, ",") {
		n++
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key, keyErr := url.PathUnescape(strings.TrimSpace(key))
		value, valueErr := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || keyErr != nil || valueErr != nil {
			if bad == 0 {
				bad = n
			}
			continue
		}
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values, bad
}

// either joins words: "a", "a or b", "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
