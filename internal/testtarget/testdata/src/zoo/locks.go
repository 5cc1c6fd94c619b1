package main

import "sync"

func init() { exhibit(showLocks) }

// locks has one lock of each kind, held or unsatisfied for ever.
var locks struct {
	mutex      sync.Mutex
	contended  sync.Mutex
	readLocked sync.RWMutex
	writeLock  sync.RWMutex
	group      sync.WaitGroup
	condLock   sync.Mutex
	cond       *sync.Cond
	once       sync.Once
	guarded    guarded
}

type guarded struct {
	sync.Mutex
	value int
}

func showLocks() {
	locks.mutex.Lock()
	go mutexLock()
	locks.contended.Lock()
	for i := 0; i < 3; i++ {
		go contendedLock()
	}
	locks.readLocked.RLock()
	go rwMutexLock()
	locks.writeLock.Lock()
	go rwMutexRLock()
	locks.group.Add(1)
	go waitGroupWait()
	locks.cond = sync.NewCond(&locks.condLock)
	go condWait()
	locks.guarded.Lock()
	go locks.guarded.embeddedLock()

	// One goroutine is inside Do, the other waits for it.
	inside := make(chan bool)
	go onceInside(inside)
	<-inside
	go onceOutside()
}

func mutexLock() {
	locks.mutex.Lock()
	defer locks.mutex.Unlock()
}

func contendedLock() { locks.contended.Lock() }

func rwMutexLock() { locks.readLocked.Lock() }

func rwMutexRLock() { locks.writeLock.RLock() }

func waitGroupWait() { locks.group.Wait() }

func condWait() {
	locks.condLock.Lock()
	defer locks.condLock.Unlock()
	for {
		locks.cond.Wait()
	}
}

func (g *guarded) embeddedLock() {
	g.Lock()
	g.value++
}

func onceInside(inside chan<- bool) {
	locks.once.Do(func() {
		inside <- true
		<-never
	})
}

func onceOutside() { locks.once.Do(func() {}) }
