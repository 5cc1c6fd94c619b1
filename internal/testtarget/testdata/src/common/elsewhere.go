package main

// elsewhere starts n goroutines. The function that it returns has one of them call a function, and waits until that returns.
func elsewhere(n int) func(func()) {
	work := make(chan func())
	for i := 0; i < n; i++ {
		go func() {
			for f := range work {
				f()
			}
		}()
	}
	return func(f func()) {
		done := make(chan bool)
		work <- func() {
			defer close(done)
			f()
		}
		<-done
	}
}
