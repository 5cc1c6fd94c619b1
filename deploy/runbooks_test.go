package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
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

// TestRunbookCommands runs the loupe commands of the runbooks on a sample program, with shorter durations.
func TestRunbookCommands(t *testing.T) {
	needRoot(t)
	t.Parallel()
	loupe, pid := build(t, "loupe"), startSample(t, 65533, 0o755)
	duration := regexp.MustCompile(`--(duration|interval) \S+`)
	done := map[string]bool{}
	for _, block := range fenced(t, "sh") {
		for line := range strings.SplitSeq(block, "\n") {
			args, ok := strings.CutPrefix(line, "loupe ")
			if !ok {
				t.Errorf("%q is no command of Loupe", line)
			}
			args = strings.ReplaceAll(duration.ReplaceAllString(args, "--$1 100ms"), `"`, "")
			if strings.HasPrefix(args, "top ") {
				args = strings.Replace(args, "top ", "top --interval 100ms ", 1)
			}
			if done[args] {
				continue
			}
			done[args] = true
			fields := strings.Fields(args)
			for i, arg := range fields {
				switch {
				case arg == "PID":
					fields[i] = pid
				case i > 0 && fields[i-1] == "-o":
					fields[i] = filepath.Join(t.TempDir(), arg)
				}
			}
			status, stdout, stderr := testcmd.Run(t, testcmd.Command(t, loupe, fields...))
			if status != 0 && !strings.Contains(stderr, "no samples") && !strings.Contains(stderr, "does not record this profile") {
				t.Errorf("%s: status %d, %s", line, status, stderr)
			}
			if status == 0 && stdout+stderr == "" {
				t.Errorf("%s printed nothing", line)
			}
		}
	}
	if len(done) < 10 {
		t.Errorf("only %d commands", len(done))
	}
}
