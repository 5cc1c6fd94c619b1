package wanted

import "testing"

func TestIsLeaf(t *testing.T) {
	for name, want := range map[string]bool{
		"internal/runtime/atomic.Uint32":                       true,
		"runtime/internal/atomic.Int64":                        true,
		"sync/atomic.Bool":                                     true,
		"sync/atomic.Pointer[internal/foo.Bar]":                true,
		"struct { runtime.x sync/atomic.Bool; runtime.y int }": false,
		"struct { runtime.x internal/runtime/atomic.Uint32 }":  false,
		"runtime.gobuf":                                        false,
		"runtime.wrap[sync/atomic.Bool]":                       false,
		"example.com/atomics.Counter":                          false,
		"":                                                     false,
	} {
		if got := IsLeaf(name); got != want {
			t.Errorf("%q is a leaf: %v", name, got)
		}
	}
}

func TestConst(t *testing.T) {
	for name, want := range map[string]string{
		"runtime.funcID_wrapper":           "runtime.funcID_wrapper",
		"internal/abi.FuncIDWrapper":       "runtime.funcID_wrapper",
		"internal/abi.FuncIDNormal":        "runtime.funcID_normal",
		"internal/abi.FuncID_runtime_main": "runtime.funcID_runtime_main",
		"internal/abi.FuncFlagSPWrite":     "runtime.funcFlag_sPWrite",
		"runtime.funcFlag_SPWRITE":         "runtime.funcFlag_sPWrite",
		"internal/abi.FUNCDATA_InlTree":    "runtime._FUNCDATA_InlTree",
		"runtime.stackGuard":               "runtime._StackGuard",
		"runtime._Gscan":                   "runtime._Gscan",
		"runtime._Gscanwaiting":            "runtime._Gscanwaiting",
		"internal/abi.FuncID":              "",
		"runtime._GCoff":                   "",
		"syscall.SIGHUP":                   "",
	} {
		if got, ok := Const(name); got != want || ok != (want != "") {
			t.Errorf("%s is %q, %v; want %q", name, got, ok, want)
		}
	}
}

func TestStructs(t *testing.T) {
	names, variables := map[string]bool{}, map[string]bool{}
	for _, s := range Structs {
		for _, name := range append(s.Also, s.Name) {
			if names[name] {
				t.Errorf("%s is there twice", name)
			}
			names[name] = true
			if got, ok := StructNamed(name); !ok || got.Name != s.Name {
				t.Errorf("%s is found as %s, %v", name, got.Name, ok)
			}
		}
		if s.Variable == "" {
			continue
		}
		if got, ok := StructOfVariable(s.Variable); !ok || got.Name != s.Name || variables[s.Variable] {
			t.Errorf("%s is found as the type of %s, %v", got.Name, s.Variable, ok)
		}
		variables[s.Variable] = true
	}
	if s, ok := StructNamed("runtime.nothing"); ok {
		t.Errorf("found %+v", s)
	}
	if s, ok := StructOfVariable(""); ok {
		t.Errorf("found %+v", s)
	}
	label, _ := StructNamed("runtime/pprof.labelMap")
	if got := label.Field(label.Field("Set") + ".List"); got != "LabelSet.list" {
		t.Errorf("the list of labels is called %s", got)
	}
}
