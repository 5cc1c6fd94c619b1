package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"
)

// firstOf returns the time from the start of loupe spans to its first span.
func (b *bench) firstOf(engine string) (time.Duration, error) {
	server, addr, err := b.server("web")
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			if resp, err := http.Get("http://" + addr + "/hello"); err == nil {
				resp.Body.Close()
			}
		}
	}()
	began := time.Now()
	cmd := exec.Command(filepath.Join(b.dir, "loupe"), "spans", "--json", "--engine", engine, fmt.Sprint(server.PID()))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	took := time.Since(began)
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || len(line) == 0 {
		return 0, fmt.Errorf("no span: %w", err)
	}
	return took, nil
}
