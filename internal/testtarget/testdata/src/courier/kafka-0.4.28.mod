module loupe.test/courier

go 1.19

require github.com/segmentio/kafka-go v0.4.28

require (
	github.com/golang/snappy v0.0.1 // indirect
	github.com/klauspost/compress v1.9.8 // indirect
	github.com/pierrec/lz4 v2.6.0+incompatible // indirect
)
