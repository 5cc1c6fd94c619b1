package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/term"
)

// processJSON is one Go process.
type processJSON struct {
	PID           int      `json:"pid"`
	PPID          int      `json:"ppid"`
	User          string   `json:"user"`
	Exe           string   `json:"exe"`
	GoVersion     string   `json:"goVersion"`
	Module        string   `json:"module"`
	ModuleVersion string   `json:"moduleVersion"`
	Arch          string   `json:"arch"`
	Linkage       string   `json:"linkage"`
	Symbols       string   `json:"symbols"`
	CGO           bool     `json:"cgo"`
	Goroutines    *int     `json:"goroutines"` // null if they could not be counted
	Engines       []string `json:"engines"`
	Container     string   `json:"container"`
	ToolInterface string   `json:"toolInterface,omitempty"` // of programs that loupe go built
}

// ProcessesJSON writes a list of Go processes as JSON.
func ProcessesJSON(w io.Writer, list []event.ProcessInfo) error {
	docs := make([]processJSON, 0, len(list))
	for _, p := range list {
		doc := processJSON{PID: p.PID, PPID: p.PPID, User: p.User, Exe: p.Exe, GoVersion: p.GoVersion, Module: p.Module,
			ModuleVersion: p.ModuleVersion, Arch: p.Arch, Linkage: p.Linkage, Symbols: p.Symbols, CGO: p.CGO,
			Engines: append([]string{}, p.Engines...), Container: p.Container, ToolInterface: p.ToolInterface}
		if p.Goroutines >= 0 {
			doc.Goroutines = &p.Goroutines
		}
		docs = append(docs, doc)
	}
	return WriteJSON(w, docs)
}

// Processes writes a list of Go processes as a text table. Lines are cut at width columns; 0 means no limit.
func Processes(w io.Writer, style term.Style, width int, list []event.ProcessInfo) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no Go process found")
		return err
	}
	t := table{head: []string{"PID", "USER", "GO", "GOROUTINES", "PROGRAM", "BUILD", "ENGINES", "MODULE"}, right: map[int]bool{0: true, 3: true}}
	for _, p := range list {
		count := "?"
		if p.Goroutines >= 0 {
			count = english.Number(p.Goroutines)
		}
		t.add(strconv.Itoa(p.PID), p.User, strings.TrimPrefix(p.GoVersion, "go"), count, programName(p), buildWords(p),
			orDash(strings.Join(p.Engines, ",")), originWords(p))
	}
	return t.write(w, style, width)
}

// buildWords describes how an executable was built, as far as it differs from the defaults of the go command.
func buildWords(p event.ProcessInfo) string {
	words := []string{p.Linkage}
	if p.CGO {
		words = append(words, "cgo")
	}
	if p.Symbols != "full" {
		words = append(words, p.Symbols)
	}
	if p.ToolInterface != "" {
		words = append(words, "glti")
	}
	return strings.Join(words, ",")
}

// originWords describes the origin of a program, which is its module and version, and its container.
func originWords(p event.ProcessInfo) string {
	var words []string
	if p.Module != "" {
		module := p.Module
		if p.ModuleVersion != "" && p.ModuleVersion != "(devel)" {
			module += "@" + p.ModuleVersion
		}
		words = append(words, module)
	}
	if p.Container != "" {
		words = append(words, "in container "+term.Clip(p.Container, 13))
	}
	return orDash(strings.Join(words, " "))
}

// programName returns the short name of a process: the base name of its executable.
func programName(p event.ProcessInfo) string {
	if p.Exe == "" {
		return "pid " + strconv.Itoa(p.PID)
	}
	return filepath.Base(p.Exe)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
