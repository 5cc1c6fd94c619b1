package config

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// FuzzLoad loads files. What is printed of a valid one has the same meaning.
func FuzzLoad(f *testing.F) {
	for _, c := range problemCases(f) {
		f.Add([]byte(c.doc))
	}
	for _, name := range []string{"testdata/ebpf-tracer.yaml", deploy + "/loupe-agent.yaml"} {
		doc, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := Source{File: "c.yaml"}.load(doc)
		if err != nil {
			if text := err.Error(); text == "" || len(text) > 1<<20 || strings.ContainsAny(text, "\x00\x1b\r") {
				t.Errorf("%q", text)
			}
			return
		}
		c.Decide(Subject{PID: 1, Exe: "/app/x", Namespace: "n", Pod: "p", Labels: map[string]string{"a": "b"}})
		c.Output.OTLP.Headers = nil // they are not printed
		var out bytes.Buffer
		if err := c.Print(&out); err != nil {
			t.Fatal(err)
		}
		again, err := Source{File: "c.yaml"}.load(out.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		if changes := Diff(c, again); len(changes) > 0 {
			t.Errorf("%v\n%s", changes, &out)
		}
	})
}

// BenchmarkBomb loads the files of the maximum size that are the most expensive.
func BenchmarkBomb(b *testing.B) {
	for name, doc := range map[string]string{
		"list":   "targets: {pids: [" + strings.Repeat("1,", MaxFile/2-20) + "]}",
		"nested": "a: " + strings.Repeat("[", MaxFile-10),
		"keys":   strings.Repeat("a:\n", MaxFile/3-1),
		"unknown": func() string {
			var s strings.Builder
			for s.Len() < MaxFile-100 {
				s.WriteString(strings.Repeat("x", 1+s.Len()%60) + "y:\n")
			}
			return s.String()
		}(),
		"comment": strings.Repeat("#\n", MaxFile/2),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Source{File: "c.yaml"}.load([]byte(doc))
			}
		})
	}
}
