package testtarget

import (
	"slices"
	"strings"
	"testing"
)

func TestSpecString(t *testing.T) {
	seen := make(map[string]Spec)
	for _, s := range append(Matrix(t, "zoo"),
		Spec{Program: "zoo", Arch: ARM64, Go: "1.12.17"},
		Spec{Program: "zoo", Go: "1.12.17", Stripped: true, PIE: true},
		Spec{Program: "zoo", Go: "1.12.17", Binutils: true},
		Spec{Program: "zoo", Go: "1.13.15", Trimpath: true},
		Spec{Program: "zoo", Go: "1.13.15", Tags: "netgo"},
		Spec{Program: "coder", Go: "1.12.17"},
	) {
		name := s.String()
		if other, ok := seen[name]; ok {
			t.Errorf("%+v and %+v are both %q", s, other, name)
		}
		seen[name] = s
	}
	got := Spec{Program: "zoo", Go: "1.12.17", Arch: AMD64, Stripped: true, PIE: true}.String()
	if want := "zoo/go1.12.17/amd64/stripped+pie"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSpecMinor(t *testing.T) {
	for version, want := range map[string]int{
		"1.12.17": 12, "1.9": 9, "1.27": 27, "1.26rc1": 26, "1.100.2": 100,
		"": 27, "1": -1, "1.": -1, "2.1": -1, "1.x": -1, "go1.12": -1,
	} {
		if got := (Spec{Go: version}).withDefaults().minor(); got != want {
			t.Errorf("%q is of the minor release %d, want %d", version, got, want)
		}
	}
}

func TestMatrix(t *testing.T) {
	specs := Matrix(t, "zoo")
	want := 4 * len(Versions())
	if !Complete() {
		want = len(Versions()) - 1 + 4
	}
	if len(specs) != want {
		t.Errorf("%d specs, want %d", len(specs), want)
	}
	var versions []string
	for _, s := range specs {
		versions = append(versions, s.Go)
	}
	if got := slices.Compact(versions); !slices.Equal(got, Versions()) {
		t.Errorf("the matrix has the releases %q, want %q", got, Versions())
	}
}

// TestBuildCommand checks what each field of a spec means to the go command.
func TestBuildCommand(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want string
	}{
		{Spec{Go: "1.12.17"}, "build GOTOOLCHAIN=go1.12.17 GOOS=linux GOARCH=amd64 CGO_ENABLED=0"},
		{Spec{Go: "1.18.10", Stripped: true}, "build -buildvcs=false -ldflags=-s -w GOTOOLCHAIN=go1.18.10 GOOS=linux GOARCH=amd64 CGO_ENABLED=0"},
		{Spec{Go: "1.14.15", PIE: true}, "build -buildmode=pie GOTOOLCHAIN=go1.14.15 GOOS=linux GOARCH=amd64 CGO_ENABLED=1 CC=" + gcc(t, AMD64)},
		{Spec{Go: "1.15.15", PIE: true}, "build -buildmode=pie GOTOOLCHAIN=go1.15.15 GOOS=linux GOARCH=amd64 CGO_ENABLED=0"},
		{Spec{Go: "1.17.13", Cgo: true, Tags: "a,b"}, "build -tags=zoocgo a b GOTOOLCHAIN=go1.17.13 GOOS=linux GOARCH=amd64 CGO_ENABLED=1 CC=" + gcc(t, AMD64)},
		{Spec{Go: "1.13.15", Trimpath: true}, "build -trimpath GOTOOLCHAIN=go1.13.15 GOOS=linux GOARCH=amd64 CGO_ENABLED=0"},
		{Spec{Go: "1.13.15", Arch: ARM64, Cgo: true}, "build -tags=zoocgo GOTOOLCHAIN=go1.13.15 GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=" + gcc(t, ARM64)},
		{Spec{Program: "mixer", Go: "1.12.17", Library: true}, "build -buildmode=c-shared -tags=zoocgo GOTOOLCHAIN=go1.12.17 GOOS=linux GOARCH=amd64 CGO_ENABLED=1 CC=" + gcc(t, AMD64)},
		{Spec{Program: "mixer", Go: "1.12.17", Archive: true}, "build -buildmode=c-archive -tags=zoocgo GOTOOLCHAIN=go1.12.17 GOOS=linux GOARCH=amd64 CGO_ENABLED=1 CC=" + gcc(t, AMD64)},
		{Spec{Program: "mixer", Go: "1.17.13", Plugin: true}, "build -tags=zoocgo mixerplugin GOTOOLCHAIN=go1.17.13 GOOS=linux GOARCH=amd64 CGO_ENABLED=1 CC=" + gcc(t, AMD64)},
	} {
		if test.spec.Arch == "" {
			test.spec.Arch = AMD64
		}
		test.spec = test.spec.withDefaults()
		got := strings.Join(append(test.spec.buildArgs(), test.spec.buildEnv()...), " ")
		if cc := test.spec.buildCompiler(); cc != "" {
			got += " CC=" + cc
		}
		if got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.spec, got, test.want)
		}
	}
}

// gcc returns the name of the C compiler for an architecture.
func gcc(t *testing.T, arch string) string {
	t.Helper()
	cc, ok := cCompiler(arch)
	if !ok {
		t.Fatalf("no C compiler for %s", arch)
	}
	return cc.command
}

func TestUnsupported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, test := range []struct {
		spec Spec
		want string // in the reason; none if empty
	}{
		{Spec{Program: "zoo"}, ""},
		{Spec{Program: "zoo", PIE: true}, ""},
		{Spec{Program: "zoo", PIE: true, Go: "1.12.17", Arch: ARM64}, "gcc"},
		{Spec{Program: "zoo", Cgo: true}, "Debian package gcc"},
		{Spec{Program: "mixer", Library: true}, "Debian package gcc"},
		{Spec{Program: "mixer", Archive: true}, "Debian package gcc"},
		{Spec{Program: "mixer", Plugin: true}, "Debian package gcc"},
		{Spec{Program: "zoo", Binutils: true}, "Debian package binutils"},
		{Spec{Program: "zoo", Arch: "mips", Cgo: true}, "no C compiler for mips"},
	} {
		got := test.spec.Unsupported()
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s without any tool: %q, want %q", test.spec, got, test.want)
		}
	}
}
