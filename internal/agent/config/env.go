package config

import (
	"fmt"
	"reflect"
	"strings"
)

// environment has the values of environment variables.
type environment map[string]string

func newEnvironment(environ []string) environment {
	env := environment{}
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			env[name] = value
		}
	}
	return env
}

// value returns the value of a variable. Like in OpenTelemetry, an empty variable is not set.
func (e environment) value(name string) string { return strings.TrimSpace(e[name]) }

// readEnvironment reads the environment variables of keys. As OpenTelemetry requires, invalid numbers and booleans in its variables are
// ignored with a warning.
func (c *Config) readEnvironment() Problems {
	var problems Problems
	root().walk(reflect.ValueOf(c).Elem(), func(f *field, v reflect.Value) {
		if f.env == "" {
			return
		}
		value := c.environ.value(f.env)
		if value == "" {
			return
		}
		otel := strings.HasPrefix(f.env, "OTEL_")
		if f.milli {
			value += "ms"
		}
		if otel && f.enum != nil {
			value = strings.ToLower(value)
		}
		parsed, err := f.fromText(value)
		if err != nil {
			p := Problem{Origin{Env: f.env}, "", err.Error()}
			if f.milli {
				p.Message = fmt.Sprintf("must be a number of milliseconds (%s), is %s", f.description, quote(c.environ.value(f.env)))
			}
			if otel && (f.bounded || f.kind == boolean || f.env == "OTEL_LOG_LEVEL") {
				p.Message += "; ignored"
				c.warnings = append(c.warnings, p)
			} else {
				problems = append(problems, p)
			}
			return
		}
		v.Set(parsed)
		c.origins[f.path] = Origin{Env: f.env}
	})
	return append(problems, c.readSignals()...)
}
