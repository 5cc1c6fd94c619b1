module loupe.test/exchange

go 1.19

require (
	golang.org/x/net v0.9.0
	google.golang.org/grpc v1.57.2
)

require (
	github.com/golang/protobuf v1.5.3 // indirect
	golang.org/x/sys v0.7.0 // indirect
	golang.org/x/text v0.9.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20230525234030-28d5490b6b19 // indirect
	google.golang.org/protobuf v1.30.0 // indirect
)
