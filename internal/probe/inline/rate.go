package inline

import "time"

// CounterRate measures the rate of the processor's counter in ticks per second. It takes about 20 milliseconds.
func CounterRate() float64 {
	const wait = 20 * time.Millisecond
	first, began := readCounter()
	time.Sleep(wait)
	second, ended := readCounter()
	return float64(second-first) / ended.Sub(began).Seconds()
}

// readCounter reads the counter and the time at the same moment: the closest of several readings.
func readCounter() (counter uint64, at time.Time) {
	closest := time.Hour
	for range maxReads {
		before := time.Now()
		tick := ticks()
		if d := time.Since(before); d < closest {
			closest, counter, at = d, tick, before.Add(d/2)
		}
	}
	return counter, at
}
