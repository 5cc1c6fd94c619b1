package main

import (
	"context"
	"time"
)

func init() { exhibit(showChannels) }

func showChannels() {
	go chanReceive()
	go chanSend()
	go chanSendBuffered()
	go chanRange()
	go chanReceiveNil()
	go chanSendNil()
	go selectReceive()
	go selectSend()
	go selectMany()
	go selectNone()
	go sleeper()
	go ticker()
	go timer()
	go selectTimer()
	time.AfterFunc(0, afterFunc)

	// A context whose parent is of a foreign type needs a goroutine of
	// package context that watches the parent.
	_, cancel := context.WithCancel(foreign{context.Background(), make(chan struct{})})
	cancels = append(cancels, cancel)
}

var cancels []context.CancelFunc

type foreign struct {
	context.Context
	done chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

func chanReceive() { <-never }

func chanSend() { never2 <- 1 }

var never2 = make(chan int)

func chanSendBuffered() {
	c := make(chan string, 2)
	for {
		c <- "full soon"
	}
}

func chanRange() {
	for v := range never {
		println(v)
	}
}

func chanReceiveNil() {
	var c chan int
	<-c
}

func chanSendNil() {
	var c chan int
	c <- 1
}

func selectReceive() {
	select {
	case <-never:
	case <-make(chan string):
	}
}

func selectSend() {
	select {
	case make(chan int) <- 1:
	case v, ok := <-never:
		println(v, ok)
	}
}

func selectMany() {
	var c [9]chan int
	for i := range c {
		c[i] = make(chan int)
	}
	select {
	case <-c[0]:
	case <-c[1]:
	case <-c[2]:
	case <-c[3]:
	case <-c[4]:
	case c[5] <- 1:
	case c[6] <- 1:
	case c[7] <- 1:
	case c[8] <- 1:
	}
}

func selectNone() { select {} }

func sleeper() { time.Sleep(1000 * time.Hour) }

func ticker() {
	t := time.NewTicker(1000 * time.Hour)
	for range t.C {
		println("a long time")
	}
}

func timer() { <-time.NewTimer(1000 * time.Hour).C }

func selectTimer() {
	select {
	case <-time.After(1000 * time.Hour):
	case <-never:
	}
}

// afterFunc runs in a goroutine that package time makes.
func afterFunc() { <-never }
