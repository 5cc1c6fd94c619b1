module loupe.test/narrator

go 1.19

require (
	go.opentelemetry.io/otel v1.0.1
	go.opentelemetry.io/otel/sdk v1.0.1
	go.opentelemetry.io/otel/trace v1.0.1
)

require golang.org/x/sys v0.0.0-20210423185535-09eb48e85fd7 // indirect
