package main

import (
	"math"
	"runtime"
	"strconv"
	"syscall"
)

// What printBooks uses exists before it reads the statistics.
var (
	stats runtime.MemStats
	line  = make([]byte, 0, 1<<17)
)

// prepare makes what printBooks uses.
func prepare() {
	prepareMetrics()
	runtime.ReadMemStats(&stats)
}

// printBooks prints the statistics and allocates nothing.
func printBooks() {
	runtime.ReadMemStats(&stats)
	readMetrics()
	m := &stats
	line = append(line[:0], '{')
	field("Alloc", m.Alloc)
	field("TotalAlloc", m.TotalAlloc)
	field("Sys", m.Sys)
	field("Mallocs", m.Mallocs)
	field("Frees", m.Frees)
	field("HeapAlloc", m.HeapAlloc)
	field("HeapSys", m.HeapSys)
	field("HeapIdle", m.HeapIdle)
	field("HeapInuse", m.HeapInuse)
	field("HeapReleased", m.HeapReleased)
	field("HeapObjects", m.HeapObjects)
	field("StackInuse", m.StackInuse)
	field("StackSys", m.StackSys)
	field("MSpanInuse", m.MSpanInuse)
	field("MSpanSys", m.MSpanSys)
	field("MCacheInuse", m.MCacheInuse)
	field("MCacheSys", m.MCacheSys)
	field("BuckHashSys", m.BuckHashSys)
	field("GCSys", m.GCSys)
	field("OtherSys", m.OtherSys)
	field("NextGC", m.NextGC)
	field("LastGC", m.LastGC)
	field("PauseTotalNs", m.PauseTotalNs)
	field("NumGC", uint64(m.NumGC))
	field("NumForcedGC", uint64(m.NumForcedGC))
	field("GCCPUFraction", math.Float64bits(m.GCCPUFraction))
	list("PauseNs", m.PauseNs[:])
	list("PauseEnd", m.PauseEnd[:])
	line = append(line, `"BySize":[`...)
	for i := range m.BySize {
		line = append(line, '{')
		field("Size", uint64(m.BySize[i].Size))
		field("Mallocs", m.BySize[i].Mallocs)
		line = append(line, `"Frees":`...)
		line = append(strconv.AppendUint(line, m.BySize[i].Frees, 10), '}', ',')
	}
	line[len(line)-1] = ']'
	line = append(line, `,"metrics":{`...)
	appendMetrics()
	line = append(line, `"":0}}`...)
	line = append(line, '\n')
	for b := line; len(b) > 0; {
		n, err := syscall.Write(1, b)
		if err != nil && err != syscall.EINTR {
			return
		}
		if n > 0 {
			b = b[n:]
		}
	}
}

func field(name string, value uint64) {
	line = append(append(append(line, '"'), name...), '"', ':')
	line = append(strconv.AppendUint(line, value, 10), ',')
}

func list(name string, values []uint64) {
	line = append(append(append(line, '"'), name...), '"', ':', '[')
	for _, v := range values {
		line = append(strconv.AppendUint(line, v, 10), ',')
	}
	line[len(line)-1] = ']'
	line = append(line, ',')
}
