package main

import "time"

func init() {
	phases = append(phases,
		phase{"unbuffered channel", 1, unbuffered},
		phase{"buffered channel", 6, buffered},
		phase{"select", 4, selects},
		phase{"closed channel", 3, closed},
		phase{"for ever", 3, forEver},
	)
}

// unbuffered passes a number to and fro.
func unbuffered() {
	ping, pong := make(chan int), make(chan int)
	go echo(ping, pong)
	for i := 0; i < 300; i++ {
		ping <- i
		<-pong
	}
	close(ping)
	<-pong
}

func echo(in <-chan int, out chan<- int) {
	for v := range in {
		out <- v
	}
	close(out)
}

// buffered has three producers and three consumers on one small channel.
func buffered() {
	items, done := make(chan int, 4), make(chan bool)
	for i := 0; i < 3; i++ {
		go produce(items, done)
		go consume(items, done)
	}
	for i := 0; i < 3; i++ {
		<-done
	}
	close(items)
	for i := 0; i < 3; i++ {
		<-done
	}
}

func produce(items chan<- int, done chan<- bool) {
	for i := 0; i < 100; i++ {
		items <- i
	}
	done <- true
}

func consume(items <-chan int, done chan<- bool) {
	for range items {
	}
	done <- true
}

// selects has a server choose between the channels of three clients.
func selects() {
	var clients [3]chan int
	for i := range clients {
		clients[i] = make(chan int)
	}
	replies, done, quit := make(chan int), make(chan bool), make(chan bool)
	go selectServer(clients, replies, quit)
	for i := range clients {
		go selectClient(clients[i], replies, done)
	}
	for range clients {
		<-done
	}
	quit <- true
}

func selectServer(clients [3]chan int, replies chan<- int, quit <-chan bool) {
	for {
		var v int
		select {
		case v = <-clients[0]:
		case v = <-clients[1]:
		case v = <-clients[2]:
		case <-quit:
			return
		}
		select {
		case replies <- v:
		case <-time.After(time.Hour):
		}
	}
}

func selectClient(requests chan<- int, replies <-chan int, done chan<- bool) {
	for i := 0; i < 50; i++ {
		select {
		case requests <- i:
		case <-never:
		}
		<-replies
	}
	done <- true
}

// closed wakes three receivers at once.
func closed() {
	gate, done := make(chan int), make(chan bool)
	for i := 0; i < 3; i++ {
		go func() {
			<-gate
			done <- true
		}()
	}
	time.Sleep(time.Millisecond)
	close(gate)
	for i := 0; i < 3; i++ {
		<-done
	}
}

// never is a channel on which nothing is ever sent or received.
var never = make(chan int)

// forEver leaves goroutines behind that nobody can wake.
func forEver() {
	go selectNoCases()
	go sendNil(nil)
	go receiveNil(nil)
	time.Sleep(time.Millisecond)
}

func selectNoCases() { select {} }

func sendNil(c chan<- int) { c <- 1 }

func receiveNil(c <-chan int) { <-c }
