package config

import (
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
