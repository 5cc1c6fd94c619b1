package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const runbooks = "../docs/RUNBOOKS.md"

// fenced returns the blocks of a language in the runbooks.
func fenced(t *testing.T, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, strings.TrimSpace(m[1]))
	}
	return blocks
}

// TestRunbooks checks that each alert has a section to which it links, and each section an alert.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		sections[name] = body
	}
	for _, r := range readRules(t) {
		body, ok := sections[r.Alert]
		for _, part := range []string{"First look:", "Causes:", "Remedy:"} {
			if !strings.Contains(body, part) && !strings.Contains(body, "| what to do |") && !strings.Contains(body, strings.Replace(part, ":", ",", 1)) {
				t.Errorf("the runbook of %s has no %q", r.Alert, part)
			}
		}
		if url := "https://github.com/loupe-go/loupe/blob/main/docs/RUNBOOKS.md#" + strings.ToLower(r.Alert); !ok || r.Annotations["runbook_url"] != url {
			t.Errorf("%s has no section, or another URL than %s", r.Alert, url)
		}
		if !strings.Contains(string(text), "["+r.Alert+"](#"+strings.ToLower(r.Alert)+")") {
			t.Errorf("the list at the start lacks %s", r.Alert)
		}
		delete(sections, r.Alert)
	}
	for name := range sections {
		t.Errorf("no alert %s", name)
	}
}
