package testport_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/loupe-go/loupe/internal/testport"
)

// TestPort asks for many ports, and for one again after its test has ended.
func TestPort(t *testing.T) {
	const n = 200
	seen := map[int]bool{}
	t.Run("held", func(t *testing.T) {
		for range n {
			port := testport.Port(t)
			if seen[port] {
				t.Errorf("port %d twice", port)
			}
			seen[port] = true
			if _, err := net.Listen("unix", fmt.Sprintf("@loupe-test-port-%d", port)); err == nil {
				t.Errorf("port %d is not held", port)
			}
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Error(err)
				continue
			}
			l.Close()
		}
	})
	// Only one is tried, because another test may have been given one of the others since.
	for port := range seen {
		l, err := net.Listen("unix", fmt.Sprintf("@loupe-test-port-%d", port))
		if err != nil {
			t.Fatalf("port %d is held after its test: %v", port, err)
		}
		l.Close()
		break
	}
}
