package discover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The protocol of the process connector: include/uapi/linux/connector.h and cn_proc.h. A datagram has messages, each with the headers of
// netlink and of the connector, followed by a proc_event.
const (
	cnIdxProc, cnValProc = 1, 1
	cnMulticastListen    = 1
	cnMulticastIgnore    = 2

	netlinkHeader   = unix.SizeofNlMsghdr // length at 0, type at 4, sequence number at 8, port at 12
	connectorHeader = 20                  // index at 0, value at 4, sequence number at 8, acknowledged at 12, length at 16

	offWhat = netlinkHeader + connectorHeader // then the processor, and 8 bytes of time
	offData = offWhat + 16
	offPID  = offData     // of exec and exit: the thread
	offTGID = offData + 4 // the process
	minSize = offTGID + 4

	whatNone = 0 // the answer to a request; its error is at offData
	whatExec = 2
	whatExit = 0x80000000
)

// connectorBuffer is the size of the kernel's buffer for notices; one takes about 800 bytes.
const connectorBuffer = 2 << 20

// ackTime is how long the kernel may take to answer.
const ackTime = time.Second

// A connector is an open process connector.
type connector struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
}

// openConnector opens the process connector, with a buffer of some bytes in the kernel. The error says why it is unavailable.
func openConnector(buffer int) (*connector, error) {
	if err := initialNamespaces(); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_CONNECTOR)
	if err != nil {
		return nil, fmt.Errorf("the kernel has no process connector: %w", err)
	}
	c := &connector{file: os.NewFile(uintptr(fd), "process connector"), buf: make([]byte, 64<<10)}
	if err := c.listen(fd, buffer); err != nil {
		c.file.Close()
		return nil, err
	}
	return c, nil
}

// initialNamespaces returns an error unless this process is in the first PID and user namespace. Elsewhere the kernel ignores requests.
func initialNamespaces() error {
	for _, ns := range []struct{ name, initial, what string }{
		{"pid", "pid:[4026531836]", "PID namespace of the machine (hostPID)"}, // PROC_PID_INIT_INO in include/linux/proc_ns.h
		{"user", "user:[4026531837]", "user namespace of the machine"},
	} {
		if link, err := os.Readlink("/proc/self/ns/" + ns.name); err == nil && link != ns.initial {
			return fmt.Errorf("requires the %s", ns.what)
		}
	}
	return nil
}

// listen asks the kernel for notices.
func (c *connector) listen(fd, buffer int) error {
	var err error
	if c.raw, err = c.file.SyscallConn(); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer); err != nil {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer) // bounded by net.core.rmem_max
	}
	if err := filterNotices(fd); err != nil {
		return fmt.Errorf("cannot filter notices: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}); err != nil {
		return requires("CAP_NET_ADMIN", err, unix.EPERM)
	}
	if err := c.send(fd, cnMulticastListen); err != nil {
		return requires("the network namespace of the machine (hostNetwork)", err, unix.ECONNREFUSED)
	}
	return c.acknowledged()
}

// requires explains an error.
func requires(what string, err, if_ error) error {
	if errors.Is(err, if_) {
		return fmt.Errorf("requires %s: %w", what, err)
	}
	return err
}

// token marks the requests of this process: all listeners receive all answers. The kernel answers with the next number.
func token() uint32 { return uint32(os.Getpid()) }

func (c *connector) send(fd int, request uint32) error {
	b := make([]byte, netlinkHeader+connectorHeader+4)
	native := binary.NativeEndian
	native.PutUint32(b, uint32(len(b)))
	native.PutUint16(b[4:], unix.NLMSG_DONE)
	native.PutUint32(b[netlinkHeader:], cnIdxProc)
	native.PutUint32(b[netlinkHeader+4:], cnValProc)
	native.PutUint32(b[netlinkHeader+12:], token())
	native.PutUint16(b[netlinkHeader+16:], 4)
	native.PutUint32(b[offWhat:], request)
	return unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// acknowledged waits for the kernel's answer to the request.
func (c *connector) acknowledged() error {
	if err := c.file.SetReadDeadline(time.Now().Add(ackTime)); err != nil {
		return err
	}
	defer c.file.SetReadDeadline(time.Time{})
	for {
		n, err := c.wait()
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("the kernel has not answered: %w", err)
		}
		if code, ok := answer(c.buf[:n]); ok && code != 0 {
			return requires("CAP_NET_ADMIN", syscall.Errno(code), unix.EPERM)
		} else if ok {
			return nil
		}
	}
}

// answer returns the error number in the answer to a request of this process.
func answer(b []byte) (code uint32, ok bool) {
	native := binary.NativeEndian
	if len(b) < minSize || native.Uint32(b[offWhat:]) != whatNone || native.Uint32(b[netlinkHeader+12:]) != token()+1 {
		return 0, false
	}
	return native.Uint32(b[offData:]), true
}

// wait reads a datagram of the kernel into the buffer, and waits for one if there is none.
func (c *connector) wait() (n int, err error) {
	readErr := c.raw.Read(func(fd uintptr) bool {
		n, err = c.read(int(fd))
		return !errors.Is(err, unix.EAGAIN)
	})
	if readErr != nil {
		return 0, readErr
	}
	return n, err
}

// read reads a datagram into the buffer. One that another process has sent has length 0.
func (c *connector) read(fd int) (int, error) {
	for {
		n, from, err := unix.Recvfrom(fd, c.buf, unix.MSG_DONTWAIT)
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case !ok || sender.Pid != 0:
			return 0, nil
		}
		return n, nil
	}
}

// receive waits for notices.
func (c *connector) receive() (batch, error) {
	var b batch
	n, err := c.wait()
	for i := range maxBatch {
		if i > 0 {
			if closed := c.raw.Control(func(fd uintptr) { n, err = c.read(int(fd)) }); closed != nil {
				return b, closed
			}
		}
		switch {
		case err == nil:
			b.notices = appendNotices(b.notices, c.buf[:n])
		case errors.Is(err, unix.ENOBUFS):
			b.lost = true
		case errors.Is(err, unix.EAGAIN):
			return b, nil
		default:
			return b, err
		}
	}
	return b, nil
}

// appendNotices adds the notices of a datagram.
func appendNotices(list []notice, b []byte) []notice {
	native := binary.NativeEndian
	for len(b) >= minSize {
		size := native.Uint32(b)
		if size < minSize || uint64(size) > uint64(len(b)) {
			return list
		}
		what, pid, process := native.Uint32(b[offWhat:]), int32(native.Uint32(b[offPID:])), int32(native.Uint32(b[offTGID:]))
		if native.Uint32(b[netlinkHeader:]) == cnIdxProc && process > 0 && (what == whatExec || what == whatExit && pid == process) {
			list = append(list, notice{pid: int(process), exit: what == whatExit})
		}
		b = b[min(uint64(size+3)&^3, uint64(len(b))):]
	}
	return list
}

// close ends the notices. Older kernels make notices until the last listener has said that it ends.
func (c *connector) close() error {
	c.raw.Control(func(fd uintptr) { c.send(int(fd), cnMulticastIgnore) })
	return c.file.Close()
}

// filterNotices drops in the kernel what is not needed: it makes notices of threads, forks and changes of users, too.
func filterNotices(fd int) error {
	word := func(v uint32) uint32 { // as the filter loads it
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], v)
		return binary.BigEndian.Uint32(b[:])
	}
	const accept, drop = 8, 9
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jump := func(at, yes, no uint8, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes - at - 1, Jf: no - at - 1}
	}
	program := []unix.SockFilter{
		load(offWhat),
		jump(1, accept, 2, word(whatExec)),
		jump(2, accept, 3, word(whatNone)),
		jump(3, 4, drop, word(whatExit)),
		load(offPID),
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		load(offTGID),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_X, Jt: accept - 7 - 1, Jf: drop - 7 - 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)})
}
