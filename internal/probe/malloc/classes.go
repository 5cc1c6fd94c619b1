package malloc

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// classSizes are the sizes of size classes in bytes (runtime/sizeclasses.go, internal/runtime/gc/sizeclasses.go), except for
// those that only some releases have.
var classSizes = []int{
	8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480, 512, 576, 640,
	704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784,
	6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
}

// sizing is how a release sizes objects.
type sizing struct {
	since       int    // Go 1.since
	extra       []int  // size classes in addition to classSizes
	headerAbove uint64 // larger small objects with pointers have a header of 8 bytes (heapBitsInSpan)
	smallMax    uint64 // larger objects have pages of their own
}

// sizings lists how releases size objects, oldest first.
var sizings = []sizing{
	{since: 12, headerAbove: 1 << 40, smallMax: 32768},
	{since: 16, extra: []int{24}, headerAbove: 1 << 40, smallMax: 32768},
	{since: 22, extra: []int{24}, headerAbove: 512, smallMax: 32768 - 8},
}

// sizingOf returns the sizing of Go 1.minor.
func sizingOf(minor int) sizing {
	found := sizings[0]
	for _, s := range sizings {
		if minor >= s.since {
			found = s
		}
	}
	return found
}

const (
	fineMax    = 1024 // rounded in steps of fineStep, larger sizes in steps of coarseStep
	fineStep   = 8
	coarseStep = 128
)

// classes returns the sizes of the size classes in bytes, in increasing order.
func (s sizing) classes() []int {
	sizes := slices.Concat(classSizes, s.extra)
	slices.Sort(sizes)
	return sizes
}

// roundedWords returns the array of the setting "rounded" (probes.c).
func (s sizing) roundedWords() ([roundedSize]uint64, error) {
	sizes := s.classes()
	var words [roundedSize]uint64
	var b []byte
	class := 0
	for size := 0; size <= fineMax; size += fineStep {
		for size > sizes[class] {
			class++
		}
		if size == 0 {
			b = append(b, 0)
			continue
		}
		b = append(b, byte(sizes[class]/fineStep))
	}
	class = 0
	for size := fineMax; size <= sizes[len(sizes)-1]; size += coarseStep {
		for size > sizes[class] {
			class++
		}
		if sizes[class]%coarseStep != 0 {
			return words, fmt.Errorf("size class %d is not a multiple of %d", sizes[class], coarseStep)
		}
		b = append(b, byte(sizes[class]/coarseStep-1))
	}
	if len(b) > 8*len(words) {
		return words, fmt.Errorf("size classes up to %d bytes do not fit", sizes[len(sizes)-1])
	}
	b = append(b, make([]byte, 8*len(words)-len(b))...)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words, nil
}

// roundedSize is the number of words of the setting "rounded".
const roundedSize = 48
