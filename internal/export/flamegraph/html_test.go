package flamegraph

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// A content is the document of a page, as the page's script reads it.
type content struct {
	Title   string
	Facts   [][2]string
	Notes   []string
	Types   [][2]string
	Type    int
	Strings []string
	Frames  struct{ Name, File, Pkg, Flags []int }
	Nodes   struct{ Frame, Depth []int }
	Labels  struct {
		Keys []int
		Sets [][]int
	}
	Rows struct {
		Node, Set   []int
		Values, Old [][]int64
	}
}

func page(t testing.TB, p *profile.Profile, opt Options) (string, content) {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p, opt); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	_, after, _ := strings.Cut(html, `<script type="application/json" id="data">`)
	doc, _, found := strings.Cut(after, "</script>")
	var c content
	if err := json.Unmarshal([]byte(doc), &c); err != nil || !found {
		t.Fatalf("the data of the page: %v", err)
	}
	return html, c
}

// hostileTexts are texts that would be markup or code if they were not escaped.
var hostileTexts = []string{
	"</script><script>alert(1)</script>", "<!--<script>", "<img src=x onerror=alert(1)>", "\u2028alert(1)\u2029", "]]>", `"};alert(1);//`, "{{js}}", "{{data}}",
	"\x00\x1b[31m\r\n", "\xff\xfe", "\u202egnp.exe", "__proto__", "constructor", "&lt;b&gt;", "'--><svg onload=alert(1)>", "${alert(1)}", "https://example.org/x.js",
}

func hostileProfile() *profile.Profile {
	b := newProfile("n/count", "b/count")
	b.p.SampleType[0].Type, b.p.SampleType[0].Unit = "n</script>", "<i>"
	for i, text := range hostileTexts {
		s := b.add([]string{"main.main", text, "<" + text + "x"}, int64(10+i), int64(i))
		s.Label = map[string][]string{text: {text, "other"}}
		s.NumLabel = map[string][]int64{"size": {int64(i)}}
		s.NumUnit = map[string][]string{"size": {text}}
	}
	b.add([]string{strings.Repeat("long.", 10_000)}, 5, 5)
	b.p.Comments = append(b.p.Comments, hostileTexts...)
	b.p.Mapping = []*profile.Mapping{{ID: 1, File: "/bin/</script><b>"}}
	return b.p
}

// TestWriteHostile holds that foreign text is data of the page only.
func TestWriteHostile(t *testing.T) {
	html, c := page(t, hostileProfile(), Options{Title: "</title><script>alert(1)</script>", Base: hostileProfile(), BaseName: "</script>"})
	empty, _ := page(t, newProfile("n/count").p, Options{})
	// Without its data the page is the same as any other.
	data := regexp.MustCompile(`(?s)(id="data">).*?(</script>)`)
	if got, want := data.ReplaceAllString(html, "$1$2"), data.ReplaceAllString(empty, "$1$2"); got != want {
		t.Error("the page depends on its data outside of the data element")
	}
	doc := data.FindString(html)
	doc = doc[len(`id="data">`) : len(doc)-len("</script>")]
	if i := strings.IndexAny(doc, "<>&\u2028\u2029"); i >= 0 || !utf8.ValidString(doc) {
		t.Errorf("the data contains %q", doc[i:min(len(doc), i+20)])
	}
	for _, text := range hostileTexts {
		if !slices.Contains(c.Strings, strings.ToValidUTF8(strings.ReplaceAll(text, "\xff\xfe", "\uFFFD\uFFFD"), "\uFFFD")) {
			t.Errorf("%q is missing", text)
		}
	}
	for _, s := range c.Strings {
		if len(s) > maxText+len("…") {
			t.Errorf("a text of %d bytes", len(s))
		}
	}
	if c.Title != "</title><script>alert(1)</script>" || c.Types[0][0] != "n</script>" || len(c.Notes) < 2*len(hostileTexts) {
		t.Errorf("%q, %q, %d notes", c.Title, c.Types, len(c.Notes))
	}
}

// TestPolicy holds that the policy permits the style and the script of the page, and nothing else.
func TestPolicy(t *testing.T) {
	html, _ := page(t, newProfile("n/count").p, Options{})
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(html)
	if policy == nil {
		t.Fatal("no policy")
	}
	hash := func(element string) string {
		content := regexp.MustCompile(`(?s)<` + element + `>(.*?)</` + element + `>`).FindStringSubmatch(html)
		if content == nil {
			t.Fatalf("no element %s", element)
		}
		sum := sha256.Sum256([]byte(content[1]))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	want := "default-src 'none'; style-src " + hash("style") + "; script-src " + hash("script") + "; base-uri 'none'; form-action 'none'"
	if policy[1] != want {
		t.Errorf("policy %q, want %q", policy[1], want)
	}
	if strings.Index(html, "Content-Security-Policy") > strings.Index(html, "<style>") {
		t.Error("the policy comes after what it restricts")
	}
	if found := regexp.MustCompile(`(?i)https?:|//[a-z]+\.|\bsrc=|\bhref=|@import|url\(|\son[a-z]+=|innerHTML|insertAdjacent|document\.write|eval\(|new Function|\bfetch\(|XMLHttp|\sstyle=`).FindString(html); found != "" {
		t.Errorf("the page contains %q", found)
	}
}

func TestWriteHeader(t *testing.T) {
	b, old := newProfile("time/nanoseconds"), newProfile("time/nanoseconds")
	b.add([]string{"runtime.main", "net/http.(*conn).serve", "<(unknown)"}, 10)
	b.p.Comments = []string{"3 events were lost"}
	old.p.DurationNanos, old.p.Comments = 30e9, []string{"older"}
	_, c := page(t, b.p, Options{Title: "cpu profile of x", Base: old.p, BaseName: "old.pb.gz"})
	want := []string{"3 events were lost", "old profile: older", "the durations differ (30s before, 10s now): values are not scaled to the same duration"}
	if !slices.Equal(c.Notes, want) || c.Title != "cpu profile of x" {
		t.Errorf("%q, notes %q", c.Title, c.Notes)
	}
	facts := map[string]string{}
	for _, f := range c.Facts {
		facts[f[0]] = f[1]
	}
	if taken, err := time.Parse("2006-01-02 15:04:05 -07:00", facts["taken"]); err != nil || taken.UnixNano() != b.p.TimeNanos || facts["duration"] != "10s" ||
		facts["stacks"] != "1" || !strings.HasPrefix(facts["compared with"], "old.pb.gz, taken 20") {
		t.Errorf("%q, %v", facts, err)
	}
	flags := map[string]int{}
	for i, name := range c.Frames.Name {
		flags[c.Strings[name]+" "+c.Strings[c.Frames.Pkg[i]]] = c.Frames.Flags[i]
	}
	for name, want := range map[string]int{"all ": flagOther, "runtime.main runtime": flagRuntime, "net/http.(*conn).serve net/http": 0, "(unknown) ": flagOther | flagInlined} {
		if got, ok := flags[name]; !ok || got != want {
			t.Errorf("%s has flags %d, want %d: %v", name, got, want, flags)
		}
	}
	if err := Write(&bytes.Buffer{}, &profile.Profile{}, Options{}); err == nil {
		t.Error("a profile without sample types")
	}
}

// largeProfile has distinct stacks of about 40 frames. Like those of a program, most callers call few functions often.
func largeProfile(stacks int) *profile.Profile {
	r := rand.New(rand.NewPCG(1, 2))
	b := newProfile("time/nanoseconds", "samples/count")
	for i := range stacks {
		stack := []string{"runtime.main", "main.main"}
		for d := range 20 + r.IntN(40) {
			callee := 0
			if r.IntN(8) == 0 {
				callee = 1 + r.IntN(3)
			}
			stack = append(stack, fmt.Sprintf("example.org/mod/pkg%d.(*T).f%d", d/4, callee))
		}
		s := b.add(append(stack, fmt.Sprintf("main.leaf%d", i)), int64(r.ExpFloat64()*1e7)+1, 1)
		s.Label = map[string][]string{"tenant": {fmt.Sprint("t", r.IntN(20))}}
	}
	return b.p
}

func TestWriteLarge(t *testing.T) {
	testtarget.Whole(t, "a page of 100,000 stacks")
	const stacks = 100_000
	p := largeProfile(stacks)
	began := time.Now()
	html, c := page(t, p, Options{})
	t.Logf("%d stacks, %d nodes, %d bytes, written and parsed in %v; %q", stacks, len(c.Nodes.Frame), len(html), time.Since(began), c.Notes)
	var want, got [2]int64
	for _, s := range p.Sample {
		want[0], want[1] = want[0]+s.Value[0], want[1]+s.Value[1]
	}
	for i := range got {
		for _, v := range c.Rows.Values[i] {
			got[i] += v
		}
	}
	if got != want || len(html) > 64<<20 || len(c.Nodes.Frame) > 2*maxNodes {
		t.Errorf("values %d, want %d; %d bytes, %d nodes", got, want, len(html), len(c.Nodes.Frame))
	}
}
