// Package cage has a dot in its path, which symbol names spell as %2e.
package cage

// Door is inlined into callers in other packages.
func Door(c chan int) int {
	return hinge(c) + 1
}

func hinge(c chan int) int { return <-c }

// Enter rests behind a function that is not inlined.
//
//go:noinline
func Enter(c chan int) { println(Door(c)) }

// A Keeper has methods to be called through wrappers.
type Keeper struct{ C chan int }

// Wait rests.
//
//go:noinline
func (k Keeper) Wait() { <-k.C }

// Feed rests in a closure.
func (k *Keeper) Feed() {
	go func() {
		func() {
			<-k.C
		}()
	}()
}
