package config

import (
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/internal/export/otlp"
)

// exporterVariable is the environment variable that chooses the exporter of a signal.
func exporterVariable(signal string) string { return "OTEL_" + strings.ToUpper(signal) + "_EXPORTER" }

// signals are all that output.otlp.signals can have.
func signals() []string { return root().find("output.otlp.signals").enum }

// readSignals applies the variables that choose exporters to output.otlp.signals.
func (c *Config) readSignals() Problems {
	var problems Problems
	const path = "output.otlp.signals"
	for _, signal := range signals() {
		name := exporterVariable(signal)
		value := strings.ToLower(c.environ.value(name))
		if value == "" {
			continue
		}
		exporters := strings.Split(strings.ReplaceAll(value, " ", ""), ",")
		for _, e := range exporters {
			if !slices.Contains([]string{"otlp", "console", "none", ""}, e) {
				problems = append(problems, Problem{Origin{Env: name}, "", "must be otlp, console or none, is " + quote(value)})
			}
		}
		has, wants := slices.Contains(c.Output.OTLP.Signals, signal), slices.Contains(exporters, "otlp")
		switch {
		case has && !wants:
			c.Output.OTLP.Signals = slices.DeleteFunc(slices.Clone(c.Output.OTLP.Signals), func(s string) bool { return s == signal })
			c.origins[path] = Origin{Env: name}
		case wants && !has:
			c.Output.OTLP.Signals = append(slices.Clone(c.Output.OTLP.Signals), signal)
			c.origins[path] = Origin{Env: name}
		}
	}
	return problems
}

// Sends reports whether a signal is sent by OTLP: metrics, traces, logs or profiles. It is if output.otlp.signals has it and there is an
// endpoint, or an OTEL_* variable for the signal alone.
func (c *Config) Sends(signal string) bool {
	if strings.EqualFold(c.environ.value("OTEL_SDK_DISABLED"), "true") || !slices.Contains(c.Output.OTLP.Signals, signal) {
		return false
	}
	return c.Output.OTLP.Endpoint != "" || c.environ.value("OTEL_EXPORTER_OTLP_"+strings.ToUpper(signal)+"_ENDPOINT") != "" ||
		strings.Contains(strings.ToLower(c.environ.value(exporterVariable(signal))), "otlp")
}

// OTEL returns the value of an OTEL_* variable that has the meaning of this configuration, whether a setting comes from the file, a flag
// or the environment. Variables without a key, such as OTEL_TRACES_SAMPLER and those for one signal, are those of the environment. It is
// the argument of [otlp.Read].
func (c *Config) OTEL(name string) (value string, ok bool) {
	if !strings.HasPrefix(name, "OTEL_") {
		return "", false
	}
	for _, signal := range signals() {
		if name == exporterVariable(signal) {
			return c.exporter(signal), true
		}
	}
	if f, v := c.byVariable(name); f != nil {
		value = f.forEnvironment(v)
	} else {
		value = c.environ.value(name)
	}
	return value, value != ""
}

// exporter returns the exporters of a signal.
func (c *Config) exporter(signal string) string {
	set := c.environ.value(exporterVariable(signal))
	switch {
	case set != "" && c.origins["output.otlp.signals"].Flag == "":
		return set
	case c.Sends(signal):
		return "otlp"
	}
	return "none"
}

// byVariable returns the field that has an environment variable, and its value.
func (c *Config) byVariable(name string) (field *field, value reflect.Value) {
	root().walk(reflect.ValueOf(c).Elem(), visitVariable(name, &field, &value))
	return field, value
}

func visitVariable(name string, found **field, value *reflect.Value) func(*field, reflect.Value) {
	return func(f *field, v reflect.Value) {
		if f.env == name {
			*found, *value = f, v
		}
	}
}

// forEnvironment returns a value as in an environment variable.
func (f *field) forEnvironment(v reflect.Value) string {
	switch f.kind {
	case duration:
		return strconv.FormatInt(time.Duration(v.Int()).Milliseconds(), 10)
	case mapping:
		var pairs []string
		for _, k := range v.MapKeys() {
			pairs = append(pairs, url.PathEscape(k.String())+"="+url.PathEscape(v.MapIndex(k).String()))
		}
		slices.Sort(pairs)
		return strings.Join(pairs, ",")
	case text:
		return v.String()
	}
	return renderScalar(f.kind, v)
}

// checkOTEL reports what package otlp finds wrong.
func (c *Config) checkOTEL() Problems {
	lookup := c.OTEL
	if c.Output.OTLP.Endpoint != "" { // check it even if neither traces nor metrics are sent
		lookup = func(name string) (string, bool) {
			if name == exporterVariable("traces") {
				return "otlp", true
			}
			return c.OTEL(name)
		}
	}
	_, warnings, err := otlp.Read(lookup)
	for _, w := range warnings {
		c.warnings = append(c.warnings, c.otelProblem(w))
	}
	if err != nil {
		return Problems{c.otelProblem(err.Error())}
	}
	return nil
}

// otelProblem makes a problem of a message of package otlp, which begins with the name of a variable.
func (c *Config) otelProblem(message string) Problem {
	end := strings.IndexAny(message, "=: ")
	name := message[:max(end, 0)]
	if f, _ := c.byVariable(name); f != nil && c.origins[f.path].Env == "" {
		return Problem{c.origins[f.path], f.path, strings.TrimLeft(message[end:], "=: ")}
	}
	if name == "" || !strings.HasPrefix(name, "OTEL_") {
		return Problem{Origin{Env: "OTEL_*"}, "", message}
	}
	return Problem{Origin{Env: name}, "", strings.TrimLeft(message[end:], "=: ")}
}
