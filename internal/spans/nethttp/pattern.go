package nethttp

import (
	"fmt"
	"slices"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
)

// A Process is a program whose types have names.
type Process interface {
	Binary() *gobin.Binary
	LoadBias() uint64
	TypeName(addr uint64) (string, error)
}

// patternSince and http2PatternUntil are the minor versions of the Go releases in which the probes at the end of a request can read the
// pattern that an http.ServeMux has matched, also if the request came by HTTP/2.
const (
	patternSince      = 22
	http2PatternUntil = 27
)

// readRequest creates a request that package net/http serves.
const readRequest = "net/http.readRequest"

// creators are the functions that create the requests which package net/http serves.
var creators = []string{readRequest, "net/http.(*http2serverConn).newWriterAndRequestNoBody"}

// otherCreators are functions that create other requests: copies, those that a program makes or reads itself, and those that package http2 of
// the module serves. Most programs have one of these functions.
var otherCreators = []string{"net/http.(*Request).WithContext", "net/http.(*Request).Clone", "net/http.NewRequestWithContext", "net/http.ReadRequest",
	pkg + ".(*serverConn).runHandler"}

// PatternLost reports whether the pattern that an http.ServeMux has matched may be missing where a request ends: the program may pass another
// request to it, such as a copy, or the release does not keep the pattern there. The code that makes a new value of type Request has the
// address of that type.
func PatternLost(p Process) bool {
	bin := p.Binary()
	if minor := bin.Version().Minor; minor < patternSince || minor >= http2PatternUntil {
		return true
	}
	if slices.ContainsFunc(otherCreators, func(name string) bool { _, ok := bin.LookupFunc(name); return ok }) {
		return true
	}
	typ, err := requestType(p)
	if err != nil {
		return true
	}
	functions, words, err := bin.Referrers(typ)
	if err != nil || words > 1 { // one is in the type *Request, others may be in structs that contain a Request
		return true
	}
	return slices.ContainsFunc(functions, func(f gobin.Func) bool { return !slices.Contains(creators, f.Name) })
}

// requestType returns the address of the type Request in the executable.
func requestType(p Process) (uint64, error) {
	bin := p.Binary()
	f, ok := bin.LookupFunc(readRequest)
	if !ok {
		return 0, fmt.Errorf("no function %s", readRequest)
	}
	code, err := bin.Code(f)
	if err != nil {
		return 0, err
	}
	refs, err := insn.Refs(insn.Code{Arch: bin.Arch(), Entry: f.Entry, Bytes: code})
	if err != nil {
		return 0, err
	}
	for _, r := range refs {
		if !r.AddressTaken() {
			continue
		}
		if name, err := p.TypeName(r.Addr + p.LoadBias()); err == nil && name == "http.Request" {
			return r.Addr, nil
		}
	}
	return 0, fmt.Errorf("%s does not refer to the type Request", readRequest)
}
