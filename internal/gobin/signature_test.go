package gobin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// describe returns a signature in one line.
func describe(list []gobin.Variable) string {
	var words []string
	for _, v := range list {
		text := fmt.Sprintf("%s %s/%d/%d/%d", v.Name, v.Type.Name, v.Type.Kind, v.Type.Size, v.Type.Align)
		if v.Result {
			text = "→" + text
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// TestSignatures reads the signatures of functions, and the size of the area of their arguments.
func TestSignatures(t *testing.T) {
	for _, release := range testtarget.Among(t, "1.19.13", "1.23.12", "1.24.13", "1.25.14") {
		bin, err := gobin.Open(testtarget.Build(t, testtarget.Spec{Program: "smith", Go: release, PIE: release == testtarget.Latest()}))
		if err != nil {
			t.Fatal(err)
		}
		defer bin.Close()
		signatures, err := bin.Signatures()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]struct {
			signature string
			size      int
		}{
			"main.(*store).get": {"s *main.store/6/8/8, key string/7/16/8, n int/2/8/8, →~r0 string/7/16/8, →~r1 error/9/16/8", 32},
			"main.scalars": {"i int/2/8/8, i8 int8/2/1/1, i32 int32/2/4/4, u uint64/3/8/8, l main.level/3/1/1, ok bool/1/1/1, p *int/6/8/8, m map[string]int/6/8/8, " +
				"→~r0 int/2/8/8, →~r1 bool/1/1/1, →~r2 *int/6/8/8, →~r3 uint16/3/2/2", 48},
			"main.others": {"f float64/4/8/8, n int/2/8/8, g float32/4/4/4, o main.options/11/32/8, list [2]int/12/16/8, c complex128/5/16/8, last int/2/8/8, " +
				"→~r0 float64/4/8/8, →~r1 main.options/11/32/8, →~r2 int/2/8/8", 96},
			"main.forever": {"c chan bool/6/8/8", 8},
		} {
			f, ok := bin.LookupFunc(name)
			if !ok {
				t.Fatalf("no %s", name)
			}
			list, err := signatures.Of(f)
			if got := describe(list); err != nil || got != want.signature {
				t.Errorf("%s of Go %s: %s, %v\nwant %s", name, release, got, err, want.signature)
			}
			if size, ok := bin.ArgsSize(f); !ok || size != want.size {
				t.Errorf("%s of Go %s: %d bytes, want %d", name, release, size, want.size)
			}
		}
		f, _ := bin.LookupFunc("main.assembled")
		if !bin.Assembler(f) && !bin.Wrapper(f) {
			t.Errorf("Go %s: assembled is not written in assembler", release)
		}
		inlined := bin.Inlined(func(name string) bool { return name == "main.always" || name == "main.sometimes" })
		if len(inlined) != 2 || !slices.Equal(inlined["main.always"], []string{"main.inlined"}) || !slices.Equal(inlined["main.sometimes"], []string{"main.inlined"}) {
			t.Errorf("Go %s: inlined %v", release, inlined)
		}
	}
}

func TestSignaturesStripped(t *testing.T) {
	bin, err := gobin.Open(testtarget.Build(t, testtarget.Spec{Program: "smith", Stripped: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer bin.Close()
	if _, err := bin.Signatures(); !errors.Is(err, gobin.ErrNoSignature) {
		t.Errorf("%v", err)
	}
}

// TestSignaturesDamaged reads debug information that is noise, or is cut.
func TestSignaturesDamaged(t *testing.T) {
	for name, path := range testtarget.BadBinaries(t) {
		bin, err := gobin.Open(path)
		if err != nil {
			continue
		}
		defer bin.Close()
		signatures, err := bin.Signatures()
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		n, known := 0, 0
		for f := range bin.Functions() {
			if n++; n > 100 {
				break
			}
			if _, err := signatures.Of(f); err == nil {
				known++
			}
			bin.ArgsSize(f)
		}
		bin.Inlined(func(string) bool { return true })
		t.Logf("%s: %d of %d signatures", name, known, n)
	}
}
