package flamegraph

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/english"
)

// Options configures [Write].
type Options struct {
	Title string // what the profile shows: "goroutine profile of orders (process 1234)"

	// Base, if not nil, is an older profile with the same sample types. The page shows the difference to it.
	Base     *profile.Profile
	BaseName string // name of the file of Base
}

// The parts of the page. The placeholders in page.html are in the order in which Write replaces them.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/model.js
	modelJS string
	//go:embed page/draw.js
	drawJS string
	//go:embed page/controls.js
	controlsJS string
)

// script is the script of the page, whose parts share their names and nothing else does.
func script() string {
	return "(function () {\n\"use strict\";\n" + modelJS + drawJS + controlsJS + "})();\n"
}

// Write writes a profile as a page. If the profile has more than about a million distinct nodes, the smallest stacks are cut
// short, and the page reports how many. Labels with too many values are omitted, which the page reports too.
//
// The error reports that the profile has negative values, or that the output could not be written.
func Write(w io.Writer, p *profile.Profile, opt Options) error {
	if len(p.SampleType) == 0 {
		return errors.New("the profile has no sample types")
	}
	t, err := newTree(p, opt.Base, maxNodes)
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(w, 64<<10)
	rest := pageHTML
	put := func(placeholder string, write func()) {
		before, after, found := strings.Cut(rest, "{{"+placeholder+"}}")
		if !found {
			panic("page.html has no " + placeholder)
		}
		buf.WriteString(before)
		write()
		rest = after
	}
	put("csp", func() { buf.WriteString(policy()) })
	put("css", func() { buf.WriteString(pageCSS) })
	put("data", func() { newDocument(p, t, opt).write(buf) })
	put("js", func() { buf.WriteString(script()) })
	buf.WriteString(rest)
	return buf.Flush()
}

// policy returns the Content-Security-Policy: the page's own style and script, and nothing else.
func policy() string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash(pageCSS) + "; script-src " + hash(script()) + "; base-uri 'none'; form-action 'none'"
}

// A fact is a line of the header of the page.
type fact [2]string

// facts returns what the header says about the profile.
func facts(p *profile.Profile, t *tree, opt Options) []fact {
	list := []fact{{"taken", when(p)}}
	if p.DurationNanos > 0 {
		list = append(list, fact{"duration", length(p)})
	}
	if len(p.Mapping) > 0 && p.Mapping[0].File != "" {
		list = append(list, fact{"executable", clip(p.Mapping[0].File)})
	}
	list = append(list, fact{"stacks", english.Number(t.stacks)})
	if base := opt.Base; base != nil {
		text := clip(opt.BaseName) + ", taken " + when(base)
		if base.DurationNanos > 0 {
			text += ", duration " + length(base)
		}
		list = append(list, fact{"compared with", text})
	}
	return list
}

func when(p *profile.Profile) string {
	if p.TimeNanos == 0 {
		return "at an unknown time"
	}
	return time.Unix(0, p.TimeNanos).Format("2006-01-02 15:04:05 -07:00")
}

func length(p *profile.Profile) string {
	d := time.Duration(p.DurationNanos)
	if d >= time.Second {
		d = d.Round(10 * time.Millisecond)
	}
	return d.String()
}

// maxComments is the maximum number of comments of a profile that the page shows.
const maxComments = 50

// notes returns the comments of the profile, and what the page does not show.
func notes(p *profile.Profile, t *tree, opt Options) []string {
	var list []string
	add := func(prefix string, comments []string) {
		for i, c := range comments {
			if i == maxComments {
				list = append(list, prefix+english.Count(len(comments)-i, "more comment"))
				break
			}
			list = append(list, prefix+clip(c))
		}
	}
	add("", p.Comments)
	if base := opt.Base; base != nil {
		add("old profile: ", base.Comments)
		if ratio := float64(p.DurationNanos) / float64(max(1, base.DurationNanos)); p.DurationNanos > 0 && (ratio < 0.9 || ratio > 1.1) {
			list = append(list, fmt.Sprintf("the durations differ (%s before, %s now): values are not scaled to the same duration", length(base), length(p)))
		}
	}
	if t.cut > 0 {
		list = append(list, fmt.Sprintf("%s of %s end at a node %s, to limit the size of this page: each is at most %.2g %% of the total, together they are %.2g %%",
			english.Count(t.cut, "stack"), english.Number(t.stacks), prunedName, 100*t.cutMax, 100*t.cutSum))
	}
	return append(list, t.labels.omitted...)
}
