// Package config is the configuration of the node agent.
//
// The central type is [Config]. A [Source] loads it from a YAML file, the environment and flags, in increasing precedence, and finds
// all mistakes at once. Each value has an [Origin]. [Source.Watch] loads the configuration again when the file changes.
//
// The types in config.go describe the configuration: the documentation of a field is that of its key, and its tag has the rest. Loading,
// the JSON schema in deploy/config.schema.json and the reference in docs/AGENT.md are made from it.
//
//	key      name in YAML
//	default  as text
//	min, max of numbers, ratios, sizes and durations
//	enum     the values that are possible
//	format   the form of a text; see formats
//	env      environment variable; /ms after the name says that it is a number of milliseconds
//	flag     the flag of the command, in addition to --set
//	restart  true if a change requires a restart of the agent; of a section, for all its keys
//	alias    the path of the key that has the same meaning
package config
