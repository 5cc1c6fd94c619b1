package loupe_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// lines collects what a program prints.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until n lines begin with a text.
func (l *lines) await(t *testing.T, prefix string, n int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for strings.Count("\n"+l.String(), "\n"+prefix) < n {
		if time.Now().After(deadline) {
			t.Fatalf("no %d lines %q in %q", n, prefix, l.String())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// codeOf returns the bytes of a function as they are in a process.
func codeOf(t *testing.T, p *testtarget.Process, name string) string {
	t.Helper()
	bin, err := gobin.Open(p.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer bin.Close()
	f, ok := bin.LookupFunc(name)
	if !ok {
		t.Fatalf("no function %s", name)
	}
	mem, err := os.Open("/proc/" + strconv.Itoa(p.PID()) + "/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	code := make([]byte, f.End-f.Entry)
	if _, err := mem.ReadAt(code, int64(f.Entry)); err != nil {
		t.Fatal(err)
	}
	return string(code)
}
