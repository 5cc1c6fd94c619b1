package glti

import "sync"

// generationQueue has the generations that wait to be delivered, up to a size.
type generationQueue struct {
	mu     sync.Mutex
	more   *sync.Cond
	list   []*generation
	size   int
	closed bool
}

func newGenerationQueue() *generationQueue {
	q := &generationQueue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

// put adds a generation, unless the queue is full. It does not block.
func (q *generationQueue) put(g *generation) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size > 0 && q.size+g.size > maxQueued {
		return false
	}
	q.list = append(q.list, g)
	q.size += g.size
	q.more.Signal()
	return true
}

// take waits for the next generation. It returns nil after close.
func (q *generationQueue) take() *generation {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.list) == 0 {
		return nil
	}
	g := q.list[0]
	q.list = q.list[1:]
	q.size -= g.size
	return g
}

// close makes take return nil when the queue is empty.
func (q *generationQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
