package goproc

import (
	"bytes"
	"io"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestEnviron reads the environment of a process from its memory, as its file has it.
func TestEnviron(t *testing.T) {
	const all = 1 << 20
	cmd := testcmd.Command(t, "cat")
	cmd.Env = []string{"FIRST=1", "OTEL_SERVICE_NAME=shop", "EMPTY="}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	// Start returns before the kernel has stored where the environment is.
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	want := []byte("FIRST=1\x00OTEL_SERVICE_NAME=shop\x00EMPTY=\x00")
	file, err := Environ(pid, all)
	if err != nil || !bytes.Equal(file, want) {
		t.Errorf("%q, %v", file, err)
	}
	read, err := environMemory(pid, all)
	if err != nil || !bytes.Equal(read, want) {
		t.Errorf("the memory has %q, %v", read, err)
	}
	for _, read := range []func(int, int) ([]byte, error){Environ, environMemory} {
		if part, err := read(pid, 10); err != nil || !bytes.Equal(part, want[:10]) {
			t.Errorf("the first 10 bytes are %q, %v", part, err)
		}
	}
}
