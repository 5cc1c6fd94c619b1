package goproc

// The sizes of the objects in each size class (runtime/sizeclasses.go; internal/runtime/gc/sizeclasses.go since Go 1.25).
// Class 0 stands for large objects. A release is known by its number of classes.
var sizeClasses = [][]uint32{
	{ // Go 1.12 to 1.15
		0, 8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480, 512,
		576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144,
		6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264,
		28672, 32768,
	},
	{ // Go 1.16 and later
		0, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480, 512,
		576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144,
		6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264,
		28672, 32768,
	},
}

// sizeClassesOf returns the sizes of n classes, or nil if no release has that many.
func sizeClassesOf(n int) []uint32 {
	for _, sizes := range sizeClasses {
		if len(sizes) == n {
			return sizes
		}
	}
	return nil
}
