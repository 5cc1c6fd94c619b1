package main

import (
	"strings"
	"testing"
)

const someRun = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"    a_test.go:3: chatter\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"    a_test.go:4: only with RELEASES=each: [1.13.15]\n"}
{"Action":"pass","Package":"p","Test":"TestGood/part","Elapsed":20}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":20.4}
{"Action":"run","Package":"p","Test":"TestSkipped"}
{"Action":"output","Package":"p","Test":"TestSkipped","Output":"=== RUN   TestSkipped\n"}
{"Action":"output","Package":"p","Test":"TestSkipped","Output":"    a_test.go:9: needs root,\n"}
{"Action":"output","Package":"p","Test":"TestSkipped","Output":"        and BPF\n"}
{"Action":"output","Package":"p","Test":"TestSkipped","Output":"--- SKIP: TestSkipped (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestSkipped","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestWhole"}
{"Action":"output","Package":"p","Test":"TestWhole","Output":"    a_test.go:12: only with RELEASES=all: an emulator\n"}
{"Action":"skip","Package":"p","Test":"TestWhole","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestKube","Output":"    a_test.go:13: only with make kube: Helm\n"}
{"Action":"skip","Package":"p","Test":"TestKube","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestBoth"}
{"Action":"output","Package":"p","Test":"TestBoth","Output":"    a_test.go:14: only with RELEASES=all: [1.14.15]\n"}
{"Action":"output","Package":"p","Test":"TestBoth","Output":"    a_test.go:15: needs a network\n"}
{"Action":"skip","Package":"p","Test":"TestBoth","Elapsed":0}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`

const failures = `go: some message of the go command
{"Action":"output","Package":"q","Test":"TestBad","Output":"    b_test.go:5: wrong\n"}
{"Action":"output","Package":"q","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"q","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q","Elapsed":0.1}`

const broken = `{"ImportPath":"r","Action":"build-output","Output":"r.go:1: syntax error\n"}
{"ImportPath":"r","Action":"build-fail"}
{"Action":"fail","Package":"r","Elapsed":0,"FailedBuild":"r"}
`

// cut is the output of a go command that was killed.
const cut = `{"Action":"start","Package":"q"}
{"Action":"run","Package":"q","Test":"TestLong"}
`

func TestTargets(t *testing.T) {
	for _, test := range []struct {
		ran  []string
		want string
	}{
		{[]string{"1.12.17", "1.13.15", "1.27.4"}, "targets of all 3 releases, Go 1.12 to 1.27"},
		{[]string{"1.12.17", "1.27.4"}, "targets of Go 1.12, 1.27; make test RELEASES=all has all 3 releases"},
	} {
		if got := targets(test.ran, []string{"1.12.17", "1.13.15", "1.27.4"}); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestReport(t *testing.T) {
	for _, test := range []struct {
		name, in   string
		strict, ok bool
		want, not  []string
	}{
		{"skips", someRun, false, true, []string{"ok  \tp\t0.1s\n", "2 tests passed, 0 failed, 2 skipped\n", "skipped  p TestSkipped: needs root, and BPF\n", "skipped  p TestBoth: only with RELEASES=all: [1.14.15] needs a network\n", "left out  p TestWhole: an emulator\n", "left out  p TestKube: Helm\n", "took  20s  p TestGood\n", "left out  p TestGood: [1.13.15]\n"}, []string{"chatter", "PASS", "FAIL", "TestGood/part", "skipped  p TestWhole", "skipped  p TestKube"}},
		{"skips in CI", someRun, true, false, []string{"no test may be skipped"}, nil},
		{"failures", failures, false, false, []string{"some message of the go command", "b_test.go:5: wrong", "FAIL\tq", "1 failed"}, nil},
		{"broken package", broken, false, false, []string{"r.go:1: syntax error\n", "1 package failed without a failed test\n", "failed  r:"}, nil},
		{"cut off", cut, false, false, []string{"never ended  q TestLong\n", "failed  q:"}, nil},
		{"nothing", "", true, true, []string{"0 tests passed"}, nil},
	} {
		var out strings.Builder
		r := newReport(&out)
		if err := r.read(strings.NewReader(test.in)); err != nil {
			t.Fatal(err)
		}
		if ok := r.finish(test.strict); ok != test.ok {
			t.Errorf("%s: ok %v, want %v", test.name, ok, test.ok)
		}
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", test.name, want, out.String())
			}
		}
		for _, not := range test.not {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: %q in\n%s", test.name, not, out.String())
			}
		}
	}
}
