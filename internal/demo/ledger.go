package demo

import (
	"context"
	"sync"
	"time"
)

const (
	bookkeepers = 6
	auditTime   = 10 * time.Millisecond
)

// ledger is a shared structure under one lock, which is held for too long.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]int
}

// audit adds an entry and goes through the accounts, slowly, while it holds the lock.
func (l *ledger) audit(account string) (total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[account]++
	for _, amount := range l.accounts {
		total += amount
	}
	time.Sleep(auditTime)
	return total
}

// runBookkeepers starts the goroutines that fight for the ledger.
func runBookkeepers(ctx context.Context, parts *sync.WaitGroup) {
	books := &ledger{accounts: map[string]int{}}
	for range bookkeepers {
		parts.Go(func() { keepBooks(ctx, books) })
	}
}

// keepBooks audits again and again.
func keepBooks(ctx context.Context, books *ledger) {
	for ctx.Err() == nil {
		books.audit("sales")
	}
}
