package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
)

func init() { exhibit(showIO) }

// kept holds files and connections that must not be collected.
var kept []interface{}

func showIO() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	client, err := net.Dial("tcp", listener.Addr().String())
	check(err)
	server, err := listener.Accept()
	check(err)
	go tcpAccept(listener)
	go tcpRead(client)
	go tcpReadBuffered(server)
	kept = append(kept, listener, client, server)

	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(err)
	go udpRead(packets)

	r, w, err := os.Pipe()
	check(err)
	go pipeRead(r)
	kept = append(kept, r, w)

	// A descriptor that the netpoller does not know blocks its thread.
	var fd [2]int
	check(syscall.Pipe(fd[:]))
	go blockingRead(fd[0])

	// Package os/signal waits for signals in a goroutine of its own.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	go signalWait(signals)

	pr, pw := io.Pipe()
	go ioPipeRead(pr)
	kept = append(kept, pw)
}

func tcpAccept(l net.Listener) { l.Accept() }

func tcpRead(c net.Conn) { c.Read(make([]byte, 10)) }

func tcpReadBuffered(c net.Conn) { bufio.NewReader(c).ReadString('\n') }

func udpRead(c net.PacketConn) { c.ReadFrom(make([]byte, 10)) }

func pipeRead(f *os.File) { f.Read(make([]byte, 10)) }

func blockingRead(fd int) { syscall.Read(fd, make([]byte, 10)) }

func signalWait(c <-chan os.Signal) { <-c }

func ioPipeRead(r io.Reader) { io.ReadFull(r, make([]byte, 10)) }
