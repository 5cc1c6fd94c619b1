//go:build !linux

package observe

import "net"

// checkPeer accepts all clients: package syscall cannot ask who they are. Only the user may enter the directory of the socket.
func checkPeer(net.Conn) error { return nil }
