package cli

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/flamegraph"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
)

// The formats of profiles.
const (
	pprofFormat      = "pprof"
	flamegraphFormat = "flamegraph"
	foldedFormat     = "folded"
)

// profileFormatsHelp describes the formats, in lines of at most 80 columns.
func profileFormatsHelp() string {
	return `Formats (--format):
  pprof      for go tool pprof
  flamegraph one HTML file with a flame graph. It works offline and loads
             nothing. Stacks can be searched, and selected by label
  folded     one line per stack, FUNCTION;FUNCTION;... VALUE, with the default
             value of the type and without labels

--diff OLD compares the profile with the pprof file OLD of the same type, which
loupe profile or runtime/pprof has written (at most ` + english.Size(pprof.MaxBytes) + ` uncompressed).
Format pprof then contains the difference, as go tool pprof -diff_base shows it;
flamegraph colours what grew red and what shrank blue; folded has two values per
line, old and new. Values are never normalized: compare equal durations.
`
}

// profileOutput is how a profile is written.
type profileOutput struct {
	format choice
	diff   string           // the file to compare with; may be empty
	old    *profile.Profile // its contents
}

// add adds the flags to a command.
func (o *profileOutput) add(cmd *cobra.Command) {
	o.format.add(cmd, "format", "format of the profile", "", pprofFormat, flamegraphFormat, foldedFormat)
	cmd.Flags().StringVar(&o.diff, "diff", "", "compare with the pprof file `OLD` of the same type")
}

// readOld reads the file to compare with, if any.
func (o *profileOutput) readOld() (err error) {
	if o.diff != "" {
		o.old, err = pprof.ReadFile(o.diff)
	}
	return err
}

// write writes a profile.
func (o *profileOutput) write(w io.Writer, p *profile.Profile, title string) error {
	if o.old != nil {
		if err := pprof.Comparable(p, o.old); err != nil {
			return fmt.Errorf("cannot compare with %s: %w", o.diff, err)
		}
	}
	switch {
	case o.format.name == flamegraphFormat:
		return flamegraph.Write(w, p, flamegraph.Options{Title: title, Base: o.old, BaseName: o.diff})
	case o.format.name == foldedFormat:
		return flamegraph.WriteFolded(w, p, o.old)
	case o.old != nil:
		difference, err := pprof.Difference(p, o.old)
		if err != nil {
			return fmt.Errorf("cannot compare with %s: %w", o.diff, err)
		}
		return difference.Write(w)
	}
	return p.Write(w)
}

// viewer says how to view a file.
func (o *profileOutput) viewer(file string) string {
	switch o.format.name {
	case flamegraphFormat:
		return "open " + file + " in a browser"
	case foldedFormat:
		return "view with: less " + file
	}
	return "view with: go tool pprof -top " + file
}

// profileResult is a profile to be written, with its descriptions for the user and for --json.
type profileResult struct {
	profile *profile.Profile
	process int
	exe     string                     // path of the executable, if known
	counted string                     // what the profile counts, such as "12 goroutines"; empty means its samples
	json    func(file profileFile) any // the document for --json
}

// profileFile describes a file with a profile, for --json.
type profileFile struct {
	File    string `json:"file"`
	Type    string `json:"type"`
	Format  string `json:"format"`
	Samples int    `json:"samples"` // distinct stacks and labels
	Bytes   int64  `json:"bytes"`
}

// writeProfile writes a profile in the format that the flags select, and reports it.
func (a *app) writeProfile(out *output.File, flags *profileFlags, r profileResult) error {
	title := fmt.Sprintf("%s profile of process %d", flags.kind, r.process)
	if name := cmp.Or(r.exe, flags.named); name != "" {
		title = fmt.Sprintf("%s profile of %s (process %d)", flags.kind, filepath.Base(name), r.process)
	}
	stacks := len(r.profile.Sample)
	if err := finish(out, flags.write.write(out, r.profile, title)); err != nil || flags.output == output.Stdout {
		return err
	}
	if a.json {
		return report.WriteJSON(a.Stdout, r.json(profileFile{File: out.Name, Type: flags.kind, Format: flags.write.format.name, Samples: stacks, Bytes: out.Bytes()}))
	}
	compared := ""
	if flags.write.old != nil {
		compared = ", compared with " + flags.write.diff + ","
	}
	what := english.Count(stacks, "sample")
	if r.counted != "" {
		what = fmt.Sprintf("%s in %s", r.counted, english.Count(stacks, "distinct stack"))
	}
	a.note("wrote %s%s to %s; %s", what, compared, out.Name, flags.write.viewer(out.Name))
	return nil
}
