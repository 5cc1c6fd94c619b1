package testcmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where says where a process and the processes that it has started are: for each one its command line, and for each of its
// threads its state and its stack in the kernel, which only root may read. It is for commands that do not end.
func Where(pid int) string {
	var b strings.Builder
	where(&b, pid)
	return b.String()
}

func where(b *strings.Builder, pid int) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			return err.Error() // a thread may have ended
		}
		return strings.TrimSpace(string(text))
	}
	proc := fmt.Sprintf("/proc/%d", pid)
	fmt.Fprintf(b, "process %d: %s\n", pid, strings.TrimSpace(strings.ReplaceAll(read(proc+"/cmdline"), "\x00", " ")))
	for line := range strings.Lines(read(proc + "/status")) {
		if strings.HasPrefix(line, "Sig") || strings.HasPrefix(line, "ShdPnd") {
			b.WriteString("  " + line)
		}
	}
	tasks, _ := filepath.Glob(proc + "/task/*") // the pattern is valid
	var children []int
	for _, task := range tasks {
		_, stat, _ := strings.Cut(read(task+"/stat"), ") ")
		fmt.Fprintf(b, "  thread %s %.1s %s\n", filepath.Base(task), cmp.Or(stat, "?"), strings.ReplaceAll(read(task+"/stack"), "\n", "\n    "))
		for child := range strings.FieldsSeq(read(task + "/children")) {
			var id int
			if _, err := fmt.Sscan(child, &id); err == nil {
				children = append(children, id)
			}
		}
	}
	for _, child := range children {
		where(b, child)
	}
}
