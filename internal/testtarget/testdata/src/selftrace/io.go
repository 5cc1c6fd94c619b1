package main

import (
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func init() {
	phases = append(phases,
		phase{"network", 8, network},
		phase{"deadline", 1, deadline},
		phase{"pipe", 1, pipe},
		phase{"system calls", 2, systemCalls},
		phase{"blocking system call", 1, blockingRead},
		phase{"signal", 0, signals},
	)
}

// network has four clients talk to a server that has a goroutine for each.
func network() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	done := make(chan bool)
	for i := 0; i < 4; i++ {
		go client(listener.Addr().String(), done)
	}
	for i := 0; i < 4; i++ {
		conn, err := listener.Accept()
		check(err)
		go answer(conn, done)
	}
	for i := 0; i < 8; i++ {
		<-done
	}
	check(listener.Close())
}

func client(address string, done chan<- bool) {
	conn, err := net.Dial("tcp", address)
	check(err)
	buf := make([]byte, 64)
	for i := 0; i < 20; i++ {
		_, err = conn.Write(buf)
		check(err)
		_, err = io.ReadFull(conn, buf)
		check(err)
	}
	check(conn.Close())
	done <- true
}

func answer(conn net.Conn, done chan<- bool) {
	_, err := io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
	check(err)
	check(conn.Close())
	done <- true
}

// deadline lets reads and an accept run into their deadlines, and has one
// goroutine end the wait of another by a new deadline.
func deadline() {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(err)
	for i := 0; i < 3; i++ {
		check(listener.SetDeadline(time.Now().Add(time.Millisecond)))
		_, err = listener.Accept()
		mustTimeOut(err)
	}
	check(listener.SetDeadline(time.Time{}))
	done := make(chan bool)
	go func() {
		_, err := listener.Accept()
		mustTimeOut(err)
		done <- true
	}()
	time.Sleep(time.Millisecond)
	check(listener.SetDeadline(time.Now().Add(-time.Second)))
	<-done
	check(listener.Close())
}

func mustTimeOut(err error) {
	if e, ok := err.(net.Error); !ok || !e.Timeout() {
		check(err)
		check(io.ErrUnexpectedEOF)
	}
}

// pipe fills a pipe until the writer waits.
func pipe() {
	r, w, err := os.Pipe()
	check(err)
	done := make(chan bool)
	go func() {
		_, err := w.Write(make([]byte, 1<<18))
		check(err)
		check(w.Close())
		done <- true
	}()
	buf := make([]byte, 1<<15)
	for {
		_, err := r.Read(buf)
		if err == io.EOF {
			break
		}
		check(err)
	}
	<-done
	check(r.Close())
}

// systemCalls makes short system calls and some that are long enough for the
// runtime to take the P away.
func systemCalls() {
	done := make(chan bool)
	go func() {
		var st syscall.Stat_t
		for i := 0; i < 200; i++ {
			check(syscall.Stat("/", &st))
		}
		done <- true
	}()
	go func() {
		for i := 0; i < 5; i++ {
			ts := syscall.NsecToTimespec(int64(time.Millisecond))
			for syscall.Nanosleep(&ts, &ts) == syscall.EINTR {
			}
		}
		done <- true
	}()
	<-done
	<-done
}

// blockingRead waits inside a system call for another goroutine.
func blockingRead() {
	var fd [2]int
	check(syscall.Pipe(fd[:]))
	done := make(chan bool)
	go func() {
		var buf [1]byte
		for i := 0; i < 5; i++ {
			for {
				_, err := syscall.Read(fd[0], buf[:])
				if err == nil {
					break
				}
				if err != syscall.EINTR {
					check(err)
				}
			}
		}
		done <- true
	}()
	for i := 0; i < 5; i++ {
		time.Sleep(time.Millisecond)
		_, err := syscall.Write(fd[1], []byte{1})
		check(err)
	}
	<-done
	check(syscall.Close(fd[0]))
	check(syscall.Close(fd[1]))
}

// signals has the runtime deliver signals of this process to itself.
func signals() {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGUSR1)
	for i := 0; i < 5; i++ {
		check(syscall.Kill(os.Getpid(), syscall.SIGUSR1))
		<-received
	}
	signal.Stop(received)
}
