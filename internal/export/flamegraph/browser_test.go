//go:build browser

package flamegraph

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// The tests in this file open pages in Chromium: make pages.
var (
	browser = flag.String("browser", "chromium", "path of Chromium or Chrome")
	keep    = flag.String("pages", "", "directory that the pages and screenshots are written to")
)

// probe is the beginning of a script that is added to a page: it types and clicks, and logs what the page shows.
const probe = `
const $ = (id) => document.getElementById(id), log = [];
const key = (k) => $("graph").dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
const set = (field, value, event) => { field.value = value; field.dispatchEvent(new Event(event || "input")); };
const say = () => log.push([$("name").textContent, $("numbers").textContent, $("place").textContent, $("found").textContent, $("selected").textContent].join(" | "));
const mouse = (type, x, row) => { const r = $("graph").getBoundingClientRect();
  $("graph").dispatchEvent(new MouseEvent(type, { clientX: r.left + x * r.width, clientY: r.top + 19 * row + 9, bubbles: true })); };
const pixel = (x, row) => Array.from($("graph").getContext("2d").getImageData(x * $("graph").width, (19 * row + 3) * devicePixelRatio, 1, 1).data).join();
`

// open opens a page in the browser, runs a script in it, and returns what the script logged, the document afterwards, and the
// messages of the console. The policy of the page is in force, with the script as the only exception.
func open(t *testing.T, name string, p *profile.Profile, opt Options, script string, flags ...string) (log []string, document, console string) {
	t.Helper()
	script = probe + script + "\ndocument.body.dataset.log = JSON.stringify(log);"
	sum := sha256.Sum256([]byte(script))
	var b bytes.Buffer
	if err := Write(&b, p, opt); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(b.String(), "script-src ", "script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"' ", 1)
	end := strings.LastIndex(text, "</body>")
	text = text[:end] + "<script>" + script + "</script>" + text[end:]
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	file := filepath.Join(dir, name+".html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,700", "--virtual-time-budget=5000", "--enable-logging=stderr",
		"--user-data-dir=" + t.TempDir()}, flags...)
	run := func(more ...string) (string, string) {
		cmd := testcmd.Within(t, 3*time.Minute, *browser, append(append(args, more...), "file://"+file)...)
		status, out, errOut := testcmd.Run(t, cmd)
		if status != 0 {
			t.Fatalf("%v: status %d: %s", cmd.Args, status, errOut)
		}
		return out, errOut
	}
	if *keep != "" {
		run("--screenshot=" + filepath.Join(dir, name+".png"))
	}
	document, messages := run("--dump-dom")
	for line := range strings.Lines(messages) {
		if strings.Contains(line, "CONSOLE") && !strings.Contains(line, "willReadFrequently") { // which is about the probe
			console += line
		}
	}
	found := regexp.MustCompile(`data-log="([^"]*)"`).FindStringSubmatch(document)
	if found == nil {
		t.Fatalf("%s: the script did not end: %s", name, console)
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &log); err != nil {
		t.Fatal(err)
	}
	return log, document, console
}

func compare(t *testing.T, name string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := append(got, make([]string, len(want))...)[i], append(want, make([]string, len(got))...)[i]
		if g != w {
			t.Errorf("%s, step %d:\n got %s\nwant %s", name, i, g, w)
		}
	}
}

// actions is a profile for the actions of a user.
func actions() *builder {
	b := newProfile("time/nanoseconds", "n/count")
	b.add([]string{"main.main", "net/http.serve", "<net/http.inner"}, 600, 3).Label = map[string][]string{"state": {"running"}}
	b.add([]string{"main.main", "net/http.serve"}, 200, 1).Label = map[string][]string{"state": {"waiting: sleep"}, "tenant": {"acme"}}
	b.add([]string{"main.main", "runtime.gopark"}, 200, 2).Label = map[string][]string{"state": {"waiting: select"}}
	return b
}

func TestBrowserActions(t *testing.T) {
	script := `
$("graph").focus(); say();
key("ArrowDown"); key("ArrowDown"); say(); key("ArrowRight"); say(); key("ArrowLeft"); key("ArrowDown"); say();
key("Enter"); log.push(String($("reset").disabled)); key("Home"); log.push(String($("reset").disabled));
set($("search"), "serve"); say(); key("n"); say(); set($("search"), "/^runtime/"); say(); set($("search"), "/(/"); say(); set($("search"), "");
const labels = document.querySelectorAll("#labels input");
set(labels[0], "waiting"); key("Home"); say(); set(labels[0], "waiting: sleep"); key("Home"); say(); set(labels[0], "");
set(labels[1], "(none)"); key("Home"); say(); set(labels[1], "");
set($("type"), "1", "change"); key("Home"); say(); set($("type"), "0", "change");
mouse("mousemove", 0.9, 2); say(); mouse("click", 0.3, 2); say(); mouse("click", 0.3, 0); say();
log.push(String(pixel(0.3, 2) !== pixel(0.9, 2)), String(pixel(0.9, 3) === pixel(0.9, 4)));
set($("orientation"), "flame", "change"); key("ArrowUp"); say();`
	const file = " | package net/http · /src/net/http.serve.go | "
	want := []string{
		"all | time: 1 µs · 100 % of total · itself: 0 ns |  |  | ",
		"net/http.serve | time: 800 ns · 80.0 % of total · 80.0 % of its caller · itself: 200 ns" + file + " | ",
		"runtime.gopark | time: 200 ns · 20.0 % of total · 20.0 % of its caller · itself: 200 ns | package runtime · /src/runtime.gopark.go |  | ",
		"net/http.inner | time: 600 ns · 60.0 % of total · 75.0 % of its caller · itself: 600 ns | inlined into its caller · package net/http · /src/net/http.inner.go |  | ",
		"false", "true",
		"all | time: 1 µs · 100 % of total · itself: 0 ns |  | 1 function: 80.0 % of total | ",
		"net/http.serve | time: 800 ns · 80.0 % of total · 80.0 % of its caller · itself: 200 ns" + file + "1 function: 80.0 % of total | ",
		"net/http.serve | time: 800 ns · 80.0 % of total · 80.0 % of its caller · itself: 200 ns" + file + "1 function: 20.0 % of total | ",
		"net/http.serve | time: 800 ns · 80.0 % of total · 80.0 % of its caller · itself: 200 ns" + file + "invalid regular expression | ",
		"all | time: 400 ns · 100 % of total · itself: 0 ns |  |  | selected: 400 ns of 1 µs (40.0 %)",
		"all | time: 200 ns · 100 % of total · itself: 0 ns |  |  | selected: 200 ns of 1 µs (20.0 %)",
		"all | time: 800 ns · 100 % of total · itself: 0 ns |  |  | selected: 800 ns of 1 µs (80.0 %)",
		"all | n: 6 · 100 % of total · itself: 0 |  |  | ",
		"runtime.gopark | time: 200 ns · 20.0 % of total · 20.0 % of its caller · itself: 200 ns | package runtime · /src/runtime.gopark.go |  | ",
		"net/http.serve | time: 800 ns · 80.0 % of total · 80.0 % of its caller · itself: 200 ns" + file + " | ",
		"all | time: 1 µs · 100 % of total · itself: 0 ns |  |  | ",
		"true", "true",
		"main.main | time: 1 µs · 100 % of total · 100 % of its caller · itself: 0 ns | package main · /src/main.main.go |  | ",
	}
	for name, flags := range map[string][]string{"light": nil, "dark": {"--force-dark-mode"}, "narrow": {"--window-size=500,700"}} {
		got, _, console := open(t, "actions-"+name, actions().p, Options{Title: "wall profile of x"}, script, flags...)
		compare(t, name, got, want)
		if console != "" {
			t.Errorf("%s: %s", name, console)
		}
	}
}

func TestBrowserDifference(t *testing.T) {
	old := actions()
	old.add([]string{"main.main", "main.gone"}, 1000, 1)
	old.p.Sample[2].Value[0] = 400
	script := `
key("ArrowDown"); key("ArrowDown"); say(); key("ArrowLeft"); say(); key("ArrowRight"); key("ArrowRight"); say();
log.push(String(new Set([pixel(0.25, 2), pixel(0.75, 2), pixel(0.95, 2)]).size));
$("vanished").checked = false; $("vanished").dispatchEvent(new Event("change")); mouse("mousemove", 0.9, 2); say();`
	got, _, console := open(t, "difference", actions().p, Options{Title: "x", Base: old.p, BaseName: "old"}, script)
	compare(t, "difference", got, []string{
		"main.gone | time: 0 ns (0 % of total) · before: 1 µs (45.5 % of total) · change: -1 µs (gone) | package main · /src/main.gone.go |  | ",
		"net/http.serve | time: 800 ns (80.0 % of total) · before: 800 ns (36.4 % of total) · change: 0 ns · 80.0 % of its caller · itself: 200 ns | package net/http · /src/net/http.serve.go |  | ",
		"runtime.gopark | time: 200 ns (20.0 % of total) · before: 400 ns (18.2 % of total) · change: -200 ns (-50.0 %) · 20.0 % of its caller · itself: 200 ns | package runtime · /src/runtime.gopark.go |  | ",
		"3",
		"runtime.gopark | time: 200 ns (20.0 % of total) · before: 400 ns (18.2 % of total) · change: -200 ns (-50.0 %) · 20.0 % of its caller · itself: 200 ns | package runtime · /src/runtime.gopark.go |  | ",
	})
	if console != "" {
		t.Error(console)
	}
}

// TestBrowserHostile holds that hostile text is text in the document, and that the policy forbids what the page does not need.
func TestBrowserHostile(t *testing.T) {
	script := `
for (let i = 0; i < 40; i++) { key(i % 2 ? "ArrowRight" : "ArrowDown"); }
log.push(String(document.scripts.length), String(document.querySelectorAll("img, svg, b:not(#name), iframe, object, link, a").length), document.title);
log.push($("title").textContent, String(document.body.textContent.includes("\u202e")));
const blocked = document.createElement("script"); blocked.textContent = "document.title = 'executed'"; document.body.append(blocked);
fetch("http://127.0.0.1:9/").catch(() => {}); log.push(document.title === "executed" ? "executed" : "blocked");`
	title := "</title><script>alert(1)</script>"
	got, document, console := open(t, "hostile", hostileProfile(), Options{Title: title, Base: hostileProfile(), BaseName: "<b>"}, script)
	data := regexp.MustCompile(`(?s)<script type="application/json".*?</script>`).FindString(document)
	if strings.Contains(data, "\u202e") { // as data it is harmless
		got[4] = "false"
	}
	compare(t, "hostile", got, []string{"3", "0", title, title, "false", "blocked"})
	if n := strings.Count(console, "CONSOLE"); n != strings.Count(console, "Content Security Policy") || n < 2 {
		t.Errorf("messages of the console: %s", console)
	}
}

func TestBrowserLarge(t *testing.T) {
	script := `
const begin = performance.now(); set($("search"), "leaf99"); key("Home"); key("ArrowDown"); set($("type"), "1", "change");
log.push(String(performance.now() - begin), $("found").textContent, $("numbers").textContent);`
	got, _, console := open(t, "large", largeProfile(100_000), Options{Title: "large"}, script)
	t.Logf("%q", got)
	if !strings.Contains(got[1], "functions: ") || console != "" {
		t.Errorf("%q, %s", got, console)
	}
}
