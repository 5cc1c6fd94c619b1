module loupe.test/pantry

go 1.19

require github.com/go-redis/redis/v8 v8.0.0

require (
	github.com/cespare/xxhash/v2 v2.1.1 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	go.opentelemetry.io/otel v0.11.0 // indirect
	golang.org/x/exp v0.0.0-20200908183739-ae8ad444f925 // indirect
)
