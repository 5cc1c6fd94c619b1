// Package router is a set of probes for the routes of requests: the patterns by which a router has found the handler of a request that
// package net/http serves. It sets the attribute http.route of the span of the request, and adds the route to the name of the span. The
// routers are http.ServeMux, github.com/gorilla/mux, github.com/go-chi/chi, github.com/gin-gonic/gin and github.com/labstack/echo.
//
// The route is that of the innermost router that has one, with the prefixes that its groups and subrouters have. It is in the form of
// the router: "/items/{id}", "/items/:id". Before Go 1.22, and with GODEBUG=httpmuxgo121=1, the patterns of an http.ServeMux have no
// parameters: "/items/". A route of gorilla/mux that is longer than 256 bytes is reported without the patterns of its variables if it has
// at most 1 KB: "/items/{id}" instead of "/items/{id:[0-9]+}". A request whose route is still longer has no attribute, nor has a request
// without a route. Paths of a group in echo that has a middleware have the route of the group, such as "/api/*", even if they are not
// found, because echo adds that.
//
// The routes of an http.ServeMux and of gorilla/mux are known when the handler is called, unless package nethttp reads the patterns of the
// mux at the end of requests ([Options]). The others are known when the router returns:
// a request whose handler panics has no route unless the router recovers, except in echo/v5.
//
// The central function is [New].
package router

import (
	"strings"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package router -out code.go -code code

// Library is the name of the set.
const Library = "routes of net/http"

const (
	oldest    = 19 // the minor version of the oldest Go release that is supported
	wildcards = 22 // that of the first release in which a pattern of an http.ServeMux can have wildcards
)

// serve is the method by which an http.ServeMux serves a request.
const serve = "net/http.(*ServeMux).ServeHTTP"

// The modules of routers.
const (
	gorilla = "github.com/gorilla/mux"
	chi     = "github.com/go-chi/chi"
	gin     = "github.com/gin-gonic/gin"
	echo    = "github.com/labstack/echo/"
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// Options configures a set.
type Options struct {
	// HasPattern reports that the patterns of an http.ServeMux are known where a request ends: nethttp.Options.Unwinds. The set then reports
	// them only with GODEBUG=httpmuxgo121=1.
	HasPattern bool
}

// New returns a set that sets the routes of the requests of a tracker.
func New(t *join.Tracker, opt Options) *probe.Set {
	d := newDecoder(t)
	set := &probe.Set{Name: Library, Code: &code, Settings: settings(), Decode: d.decode}
	for _, p := range append(muxProbes(opt.HasPattern), moduleProbes()...) {
		p.Since = max(p.Since, oldest)
		p.NeedsG, p.Reads, p.Quiet = true, true, true
		set.Probes = append(set.Probes, p)
	}
	return set
}

// muxProbes returns the declarations for an http.ServeMux.
func muxProbes(hasPattern bool) []probe.Declaration {
	const (
		match   = "net/http.(*ServeMux).matchOrRedirect"
		old     = "net/http.(*ServeMux).handler"
		chosen  = "net/http.(*serveMux121).handler" // with GODEBUG=httpmuxgo121=1
		without = "the routes of http.ServeMux are not reported"
	)
	settings := []string{"serve_start", "serve_size"}
	list := []probe.Declaration{{
		Program: "old_serve_mux", Until: wildcards, Funcs: []string{old}, Place: probe.AtExit, Results: 4, Deferred: old + ".func1",
		Settings: settings, Without: without,
	}, {
		Program: "old_serve_mux", Since: wildcards, Funcs: []string{chosen}, Place: probe.AtExit, Results: 4, Deferred: chosen + ".deferwrap1",
		Settings: settings, Without: without, Alone: []string{"old_serve_mux"},
	}}
	if hasPattern {
		return list
	}
	return append(list, probe.Declaration{
		Program: "serve_mux", Since: wildcards, Funcs: []string{match}, Place: probe.AtCall, Callee: "net/http.exactMatch",
		Settings: append(settings, "node_pattern", "pattern_str"), Without: without,
	})
}

// moduleProbes returns the declarations for other routers.
func moduleProbes() []probe.Declaration {
	const put = "sync.(*Pool).Put"
	without := func(module string) string { return "the routes of " + module + " are not reported" }
	// since returns the versions of a module from one on.
	since := func(path, version, until string) []probe.Module {
		return []probe.Module{{Path: path, Since: version, Until: until}}
	}
	list := []probe.Declaration{
		{
			Program: "gorilla", Modules: since(gorilla, "v1.8.0", ""), Funcs: []string{gorilla + ".requestWithRoute"}, Words: 2,
			Settings: []string{"gorilla_path", "regexp_template"}, Without: without(gorilla),
		}, {
			Program: "old_gorilla", Modules: since(gorilla, "v1.7.0", "v1.8.0"), Funcs: []string{gorilla + ".contextSet"}, Words: 5,
			Settings: []string{"gorilla_path", "regexp_template"}, Without: without(gorilla),
		}, {
			Program: "old_gorilla", Modules: since(gorilla, "v1.4.0", "v1.7.0"), Funcs: []string{gorilla + ".contextSet"}, Words: 5,
			Settings: []string{"gorilla_group", "group_path", "regexp_template"}, Without: without(gorilla),
		}, {
			Program: "gin", Modules: since(gin, "v1.5.0", ""), Funcs: []string{gin + ".(*Engine).ServeHTTP"}, Place: probe.AtCall, Callee: put,
			Settings: []string{"gin_path"}, Without: without(gin),
		}, {
			Program: "echo", Modules: since(echo+"v4", "v4.0.0", ""), Funcs: []string{echo + "v4.(*Echo).ServeHTTP"}, Place: probe.AtCall, Callee: put,
			Settings: []string{"echo_path", "echo_handler", "echo_start", "echo_size"}, Without: without(echo + "v4"),
		}, {
			Program: "new_echo", Modules: since(echo+"v5", "v5.0.0", ""), Funcs: []string{echo + "v5.(*Echo).serveHTTP.deferwrap1"},
			Place: probe.AtCall, Callee: put, Settings: []string{"new_echo_path", "new_echo_route", "route_method"}, Without: without(echo + "v5"),
		},
	}
	// v1.5.x are newer versions of v4 without its path.
	for _, v := range [][]probe.Module{since(chi+"/v5", "v5.0.0", ""), since(chi, "v4.0.0", ""), since(chi, "v1.5.0", "v2.0.0")} {
		list = append(list, probe.Declaration{Program: "chi", Modules: v, Funcs: []string{v[0].Path + ".(*Mux).ServeHTTP"}, Place: probe.AtCall, Callee: put,
			Settings: []string{"chi_patterns", "chi_pattern"}, Without: without(v[0].Path)})
	}
	return list
}

// settings are the offsets of fields and other numbers of the C half.
func settings() []probe.Setting {
	field := sets.Field
	return []probe.Setting{
		bound("serve_start", false, exactly(serve)), bound("serve_size", true, exactly(serve)),
		at(field("node_pattern", "net/http.routingNode.pattern"), 0, probe.Module{Path: probe.Std, Since: "v1.22.0"}),
		field("pattern_str", "net/http.pattern.str"),
		field("gorilla_group", gorilla+".Route.regexp"), field("group_path", gorilla+".routeRegexpGroup.path"),
		field("gorilla_path", gorilla+".Route.routeConf.regexp.path"), field("regexp_template", gorilla+".routeRegexp.template"),
		at(field("chi_patterns", chi+"/v5.Context.RoutePatterns", chi+".Context.RoutePatterns"), 48, probe.Module{Path: chi}),
		at(field("chi_pattern", chi+"/v5.Context.routePattern", chi+".Context.routePattern"), 120, probe.Module{Path: chi}),
		field("gin_path", gin+".Context.fullPath"),
		field("echo_path", echo+"v4.context.path"), field("echo_handler", echo+"v4.context.handler"),
		bound("echo_start", false, isEchoHandler), bound("echo_size", true, isEchoHandler),
		field("new_echo_path", echo+"v5.Context.path"), field("new_echo_route", echo+"v5.Context.route"), field("route_method", echo+"v5.RouteInfo.Method"),
	}
}

// isEchoHandler reports whether a function is in a variable of package echo: NotFoundHandler or MethodNotAllowedHandler.
func isEchoHandler(name string) bool {
	return strings.HasPrefix(name, echo+"v4.glob..func") || strings.HasPrefix(name, echo+"v4.init.func")
}

// exactly returns a function that reports whether a function has a name.
func exactly(name string) func(string) bool {
	return func(other string) bool { return other == name }
}

// at sets the offset of a field in all versions of a module, for targets without DWARF.
func at(s probe.Setting, offset uint64, m probe.Module) probe.Setting {
	s.Offsets = append(s.Offsets, probe.Offset{Module: m, Offset: offset})
	return s
}

// bound returns a setting that is the address of the functions that match, or their size. They must be next to each other. It is 0 if
// there are none.
func bound(name string, size bool, match func(string) bool) probe.Setting {
	return probe.Setting{Name: name, Value: func(p probe.Program) (uint64, error) {
		var start, end uint64
		for f := range p.Binary().Functions() {
			if !match(f.Name) {
				continue
			}
			if start == 0 || f.Entry < start {
				start = f.Entry
			}
			end = max(end, f.End)
		}
		switch {
		case start == 0:
			return 0, nil
		case size:
			return end - start, nil
		}
		return start + p.LoadBias(), nil
	}}
}
