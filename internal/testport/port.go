package testport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports of servers are below those that Linux gives to connections and to listeners that ask for any port, from 32768 on
// (net.ipv4.ip_local_port_range).
const firstPort, lastPort = 20000, 32767

// Port returns a TCP port for a server that a test starts, on which nobody listens at any address. Nobody else is given the port before the
// test ends, neither by Port, in any process, nor by Linux.
func Port(tb testing.TB) int {
	tb.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		// The name of the abstract socket is what keeps other processes off.
		held, err := net.Listen("unix", fmt.Sprintf("@loupe-test-port-%d", port))
		if err != nil {
			continue
		}
		free, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			held.Close()
			continue
		}
		free.Close()
		tb.Cleanup(func() { held.Close() })
		return port
	}
	tb.Fatal("found no port for a server")
	return 0
}

// Address returns an address of the loopback interface with such a port, as in "127.0.0.1:20000".
func Address(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprint("127.0.0.1:", Port(tb))
}
