package glti

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestCapabilities checks that each method has a capability, and that it is true.
func TestCapabilities(t *testing.T) {
	all := map[string]Capability{}
	for _, c := range Capabilities() {
		if all[c.Method].Method != "" {
			t.Errorf("%s appears twice", c.Method)
		}
		if c.Available == (c.Why != "") {
			t.Errorf("%s", c)
		}
		all[c.Method] = c
	}
	other := map[string]bool{ // methods that need no capability
		"Close": true, "Capabilities": true, "Handle": true, "Unregister": true, "Flush": true, "Snapshot": true, "SetInterval": true,
	}
	methods := 0
	for _, typ := range []reflect.Type{reflect.TypeOf(&GLTIEnv{}), reflect.TypeOf(&TracingEnv{}), reflect.TypeOf(&ProfilerEnv{})} {
		for i := 0; i < typ.NumMethod(); i++ {
			name := typ.Method(i).Name
			if _, ok := all[name]; !ok && !other[name] {
				t.Errorf("%s has no capability", name)
			} else if ok {
				methods++
			}
		}
	}
	if methods != len(all) || methods != 44+6+15+2 {
		t.Errorf("%d methods, %d capabilities", methods, len(all))
	}
	env := NewEnv("capabilities")
	defer env.Close()
	if len(env.Capabilities()) != len(all) || env.GltiVersion != Version || env.GoVersion != runtime.Version() {
		t.Errorf("environment %+v", env)
	}
}

func TestGetG(t *testing.T) {
	env := NewEnv("g")
	defer env.Close()
	here := env.GetG()
	if other := any(started(func() {})); here != env.GetG() || here == other {
		t.Errorf("%v, %v, in another goroutine %v", here, env.GetG(), other)
	}
	buf := make([]byte, 100)
	if want := fmt.Sprint(here, " ["); !strings.HasPrefix(string(buf[:runtime.Stack(buf, false)]), want) {
		t.Errorf("%q, traceback begins with %q", want, buf)
	}
}

func TestResolveIface(t *testing.T) {
	env := NewEnv("iface")
	defer env.Close()
	var err error = &os.PathError{}
	if env.ResolveIface(err) != reflect.TypeOf(&os.PathError{}) || env.ResolveIface(nil) != nil {
		t.Errorf("%v, %v", env.ResolveIface(err), env.ResolveIface(nil))
	}
}

func TestTime(t *testing.T) {
	before := time.Now()
	got := Time(Now())
	if after := time.Now(); got.Before(before) || got.After(after) {
		t.Errorf("%v is not between %v and %v", got, before, after)
	}
}

func TestGoroutineID(t *testing.T) {
	for text, want := range map[string]uint64{"goroutine 18 [running]:": 18, "goroutine ": 0, "goroutine x [": 0, "": 0, "goroutine 18": 0, "thread 1 [": 0} {
		if id, ok := goroutineID([]byte(text)); id != want || ok != (want != 0) {
			t.Errorf("%q: %d, %v", text, id, ok)
		}
	}
}

func TestTraceable(t *testing.T) {
	for version, want := range map[string]bool{
		"go1.21.13": false, "go1.22": true, "go1.22rc1": true, "go1.27.4": true, "go1.27.4 X:nodwarf5": true, "go1.28": false, "go1.3": false, "devel go1.28-abc": true,
	} {
		if got := traceable(version) == ""; got != want {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}
