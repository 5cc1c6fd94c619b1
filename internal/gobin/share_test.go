package gobin

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// TestShare reads the same table twice, one that differs, and expects that none is remembered that nobody uses.
func TestShare(t *testing.T) {
	table := func(last byte) []byte { return append(bytes.Repeat([]byte("pclntab "), 1000), last) }
	a, b, c := share(table(1)), share(table(1)), share(table(2))
	if &a[0] != &b[0] {
		t.Error("two tables with the same contents are in memory")
	}
	if !bytes.Equal(c, table(2)) || &a[0] == &c[0] {
		t.Error("tables with different contents are one")
	}
	runtime.KeepAlive(a)
	a, b, c = nil, nil, nil
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		shared.Lock()
		n := len(shared.tables)
		shared.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d tables that nobody uses are remembered", n)
		}
	}
}
