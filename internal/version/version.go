// Package version reads which version of Loupe this is from the running executable.
package version

import (
	"runtime"
	"runtime/debug"
)

// Info is the version of Loupe. Its JSON is part of the command line.
type Info struct {
	Version  string `json:"version"` // of the module; "(devel)" when built from a working tree
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns what the go command has written into this executable.
func Read() Info {
	v := Info{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String returns the version as a line without the name of the program.
func (v Info) String() string {
	line := v.Version
	if v.Revision != "" {
		line += " " + v.Revision
		if v.Modified {
			line += " (modified)"
		}
	}
	return line + ", " + v.Go + ", " + v.Platform
}
