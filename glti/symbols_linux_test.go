package glti

import (
	"os"
	"reflect"
	"runtime"
	"testing"
)

func TestResolveSymbol(t *testing.T) {
	failOnReport(t)
	env := NewEnv("symbols")
	defer env.Close()
	for name, f := range map[string]any{
		"os.ReadFile": os.ReadFile, "runtime.GC": runtime.GC, "github.com/loupe-go/loupe/glti.deliver": deliver, "github.com/loupe-go/loupe/glti.(*GLTIEnv).GetG": (*GLTIEnv).GetG,
	} {
		want := reflect.ValueOf(f).Pointer()
		if got := env.ResolveSymbol(name); got != want || env.FuncForPC(got).Name() != name {
			t.Errorf("%s is at %#x, want %#x", name, got, want)
		}
	}
	if addr := env.ResolveSymbol("main.missing"); addr != 0 {
		t.Errorf("a missing function is at %#x", addr)
	}
	if f := env.FuncForPC(1); f != nil {
		t.Errorf("function at 1: %s", f.Name())
	}
}

// TestWalkFunctions compares the functions found in memory with those of the program's file.
func TestWalkFunctions(t *testing.T) {
	walked := walkFunctions(anchor().Entry())
	inFile := readExecutable(lineTableOf)
	moved := anchor().Entry() - inFile[anchor().Name()]
	missing := 0
	for name, addr := range inFile {
		f := runtime.FuncForPC(addr + moved)
		if f == nil || f.Entry() != addr+moved || f.Name() != name {
			continue // not of Go, or a name that the line table spells in another way
		}
		if walked[name] != addr+moved {
			missing++
		}
	}
	if missing > len(inFile)/100 || len(walked) < len(inFile)/2 { // several functions can have one name
		t.Errorf("%d of %d functions are missing; found %d", missing, len(inFile), len(walked))
	}
}
