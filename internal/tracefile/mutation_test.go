package tracefile

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/trace"
)

// mutationRounds is how many mutations of each trace TestMutations makes.
var mutationRounds = flag.Int("mutations", 12, "how many mutations of each trace are given to the verbs")

// mutate changes a trace behind its header in one of the ways in which files are damaged, and in ways in which nothing
// damages files.
func mutate(r *rand.Rand, data []byte) []byte {
	const header = 16
	b := bytes.Clone(data)
	for range 1 + r.IntN(3) {
		if len(b) < header+8 {
			return b
		}
		at := header + r.IntN(len(b)-header)
		end := min(at+1+r.IntN(200), len(b))
		switch r.IntN(8) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.Uint32())
		case 2:
			b = b[:at]
		case 3:
			b = append(b[:at:at], b[end:]...)
		case 4:
			b = append(b[:end:end], b[at:]...)
		case 5:
			clear(b[at:end])
		case 6: // the largest number
			b = append(append(b[:at:at], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"...), b[at:]...)
		default: // batches in another order
			b = append(append(b[:header:header], b[at:]...), b[header:at]...)
		}
	}
	return b
}

// mutationVerbs are what is done with mutated traces.
var mutationVerbs = []struct {
	name   string
	format string
	do     func(ctx context.Context, out *Output, paths []string, partial bool) error
}{
	{"merge processes", export.Chrome, func(ctx context.Context, out *Output, paths []string, partial bool) error {
		_, err := MergeProcesses(ctx, out, paths, MergeOptions{Format: as(export.Chrome).Format, Align: AlignAuto, Names: []string{"a", "b"}, Partial: partial, MaxMemory: 64 << 20})
		return err
	}},
	{"merge processes", export.Perfetto, func(ctx context.Context, out *Output, paths []string, partial bool) error {
		_, err := MergeProcesses(ctx, out, paths, MergeOptions{Format: as(export.Perfetto).Format, Align: AlignAuto, Threads: true, Names: []string{"a", "b"}, Partial: partial, MaxMemory: 64 << 20})
		return err
	}},
	{"merge parts", export.Go, func(ctx context.Context, out *Output, paths []string, partial bool) error {
		_, err := MergeParts(ctx, out, paths, MergeOptions{Format: as(export.Go).Format, Partial: partial, MaxMemory: 64 << 20})
		return err
	}},
	{"convert", export.Go, func(ctx context.Context, out *Output, paths []string, _ bool) error {
		return convertFile(ctx, out, paths[0], &Selection{})
	}},
	{"filter", export.Go, func(ctx context.Context, out *Output, paths []string, _ bool) error {
		sel := &Selection{Goroutines: []uint64{1, 2, 3, 17, 18, 19, 20}}
		sel.From, _ = ParseMoment("10us")
		return convertFile(ctx, out, paths[0], sel)
	}},
}

func convertFile(ctx context.Context, out *Output, path string, sel *Selection) error {
	in, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	in.MaxMemory = 64 << 20
	_, err = Convert(ctx, out, in, as(export.Go), sel)
	return err
}

// TestMutations merges, converts and filters mutated traces of all formats. Each ends by itself; an error has one line; and
// what is written without an error, or in spite of damage with Partial, is whole: a Go trace without problems, or JSON.
func TestMutations(t *testing.T) {
	names := []string{"go1.18.10", "go1.20.14", "go1.21.13", "go1.22.12", "go1.23.12", "go1.25.14", "go1.26.11"}
	originals := make([][]byte, len(names))
	for i, name := range names {
		var err error
		if originals[i], err = tiny(name); err != nil {
			t.Fatal(err)
		}
	}
	results := map[string]int{}
	for i, name := range names {
		for round := range *mutationRounds {
			r := rand.New(rand.NewPCG(uint64(i), uint64(round)))
			dir := t.TempDir()
			other := i
			if round%4 == 3 {
				other = r.IntN(len(names))
			}
			paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
			contents := [][]byte{mutate(r, originals[i]), originals[other]}
			if round%2 == 1 {
				contents[0], contents[1] = contents[1], contents[0]
			}
			for n, path := range paths {
				if err := os.WriteFile(path, contents[n], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, verb := range mutationVerbs {
				id := fmt.Sprintf("%s %s as %s, mutation %d", name, verb.name, verb.format, round)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				partial := round%3 == 0
				var err error
				path := made(t, func(out *Output) error {
					err = verb.do(ctx, out, paths, partial)
					return nil
				})
				if ctx.Err() != nil {
					t.Errorf("%s takes more than a minute", id)
				}
				cancel()
				switch {
				case err != nil && strings.ContainsAny(err.Error(), "\n\r"):
					t.Errorf("%s: not one line: %v", id, err)
				case err == nil || IsDamage(err) && verb.name != "merge processes" && verb.name != "merge parts":
					results["written"]++
					expectWhole(t, id, path, verb.format)
				default:
					results["refused"]++
				}
			}
		}
	}
	t.Log(results)
	if *mutationRounds >= 12 && (results["written"] < 50 || results["refused"] < 50) {
		t.Errorf("%v: there should be many of both", results)
	}
}

// expectWhole expects a file to be a whole document of a format.
func expectWhole(t *testing.T, id, path string, format string) {
	t.Helper()
	data := contentOf(t, path)
	switch format {
	case export.Chrome:
		if !json.Valid(data) {
			t.Errorf("%s: what is written is no JSON: %.200s", id, data)
		}
	case export.Go:
		report, err := trace.Validate(bytes.NewReader(data), trace.ValidateOptions{})
		if err != nil {
			t.Errorf("%s: %v", id, err)
		} else if report.Errors > 0 {
			t.Errorf("%s: %v: %v", id, report, report.Problems[0].Text)
		}
		in, err := Open(t.Context(), Stdin, bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", id, err)
			return
		}
		if s, err := Stat(t.Context(), in, StatOptions{}); err != nil || s.Err != nil && s.Err != io.EOF {
			t.Errorf("%s: %v, %v", id, err, s)
		}
	}
}
