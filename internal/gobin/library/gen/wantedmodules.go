package main

// grpcStructs are the wanted structs of module google.golang.org/grpc.
var grpcStructs = []wantedStruct{
	{"google.golang.org/grpc", "ClientConn", "target"},
	{"google.golang.org/grpc", "StreamDesc", "StreamName ServerStreams ClientStreams"},
	{"google.golang.org/grpc", "clientStream", "callHdr cc desc ctx attempt finished"},
	{"google.golang.org/grpc", "csAttempt", "cs t s transport transportStream"},
	{"google.golang.org/grpc", "serverStream", "ctx t s"},
	{"google.golang.org/grpc/internal/transport", "CallHdr", "Host Method"},
	{"google.golang.org/grpc/internal/transport", "Stream", "id st ct ctx method status"},
	{"google.golang.org/grpc/internal/transport", "http2Client", "remoteAddr localAddr nextID"},
	{"google.golang.org/grpc/internal/transport", "http2Server", "remoteAddr localAddr peer peer.Addr peer.LocalAddr"},
	{"google.golang.org/grpc/metadata", "rawMD", "md added"},
	{"google.golang.org/grpc/peer", "Peer", "Addr"},

	// Since the streams of clients and servers are two types, both contain a Stream or a pointer to one.
	{"google.golang.org/grpc/internal/transport", "ClientStream", "Stream Stream.id Stream.ctx Stream.method ct status"},
	{"google.golang.org/grpc/internal/transport", "ServerStream", "Stream Stream.id Stream.ctx Stream.method st"},

	// The headers of a stream before v1.82.1, and since then.
	{"google.golang.org/grpc/internal/transport", "headerFrame", "streamID hf"},
	{"google.golang.org/grpc/internal/transport", "clientHeaders", "streamID hf"},
	{"google.golang.org/grpc/internal/transport", "serverHeaders", "streamID hf"},

	// A status has moved from one package to the other.
	{"google.golang.org/grpc/internal/status", "Error", "e s"},
	{"google.golang.org/grpc/internal/status", "Status", "s"},
	{"google.golang.org/grpc/status", "Status", "s"},
}

// statusStructs are the wanted structs of the package that has moved from module google.golang.org/genproto to module
// google.golang.org/genproto/googleapis/rpc.
var statusStructs = []wantedStruct{
	{"google.golang.org/genproto/googleapis/rpc/status", "Status", "Code Message"},
}

// http2Structs are the wanted structs of module golang.org/x/net.
var http2Structs = []wantedStruct{
	{"golang.org/x/net/http2", "ClientConn", "bw peerMaxHeaderListSize"},
	{"golang.org/x/net/http2", "clientStream", "res"},
	{"golang.org/x/net/http2", "responseWriter", "rws"},
	{"golang.org/x/net/http2", "responseWriterState", "req status wroteBytes"},
}

// kafkaStructs are the wanted structs of module github.com/segmentio/kafka-go.
var kafkaStructs = []wantedStruct{
	{"github.com/segmentio/kafka-go", "Dialer", "ClientID"},
	{"github.com/segmentio/kafka-go", "Message", "Topic Partition Offset HighWaterMark Key Value Headers Time"},
	{"github.com/segmentio/kafka-go", "Reader", "config config.Brokers config.GroupID config.Topic config.Dialer"},
	{"github.com/segmentio/kafka-go", "ReaderConfig", "Brokers GroupID Topic Partition"},
	{"github.com/segmentio/kafka-go", "Transport", "ClientID"},
	{"github.com/segmentio/kafka-go", "Writer", "Addr Topic Transport RequiredAcks Async"},
	{"github.com/segmentio/kafka-go", "networkAddress", "network address"},
	{"github.com/segmentio/kafka-go", "partitionWriter", "meta w"},
	{"github.com/segmentio/kafka-go", "topicPartition", "topic partition"},
	{"github.com/segmentio/kafka-go", "writeBatch", "msgs size bytes done err"},
	{"github.com/segmentio/kafka-go", "writerRecords", "msgs index record"},
	{"github.com/segmentio/kafka-go/protocol", "Header", "Key Value"},
	{"github.com/segmentio/kafka-go/protocol", "Record", "Headers"},
}

// franzStructs are the wanted structs of module github.com/twmb/franz-go.
var franzStructs = []wantedStruct{
	{"github.com/twmb/franz-go/pkg/kerr", "Error", "Message"},
	{"github.com/twmb/franz-go/pkg/kgo", "Client", "cfg cfg.id cfg.seedBrokers cfg.group cfg.txnID cfg.defaultProduceTopic producer.producingTxn"},
	{"github.com/twmb/franz-go/pkg/kgo", "Fetch", "Topics"},
	{"github.com/twmb/franz-go/pkg/kgo", "FetchPartition", "Partition Records"},
	{"github.com/twmb/franz-go/pkg/kgo", "FetchTopic", "Topic Partitions"},
	{"github.com/twmb/franz-go/pkg/kgo", "Record", "Key Value Headers Topic Partition Offset"},
	{"github.com/twmb/franz-go/pkg/kgo", "RecordHeader", "Key Value"},
	{"github.com/twmb/franz-go/pkg/kgo", "recBuf", "maxRecordBatchBytes"},
}

// saramaStructs returns the wanted structs of a path of the sarama client.
func saramaStructs(pkg string) []wantedStruct {
	return []wantedStruct{
		{pkg, "Config", "ClientID Version Producer.RequiredAcks Producer.MaxMessageBytes"},
		{pkg, "ConsumerMessage", "Topic Key Value Headers Partition Offset"},
		{pkg, "ProducerMessage", "Topic Key Value Headers Partition Offset retries"},
		{pkg, "asyncProducer", "conf"},
		{pkg, "consumerGroup", "consumer groupID"},
		{pkg, "consumerGroupSession", "parent"},
		{pkg, "partitionConsumer", "messages consumer conf"},
		{pkg, "produceSet", "parent"},
	}
}

// redisStructs returns the wanted structs of a major version of the redis client. netConn are the fields of its connections that have
// had the connection of package net.
func redisStructs(pkg, netConn string) []wantedStruct {
	return []wantedStruct{
		{pkg, "Client", "baseClient"},
		{pkg, "Options", "Network Addr DB MaxRetries"},
		{pkg, "Pipeline", "cmds"},
		{pkg, "baseClient", "opt connPool"},
		{pkg, "baseCmd", "ctx args err"},
		{pkg, "clusterNode", "Client"},
		{pkg + "/internal/pool", "Conn", netConn},
	}
}

// pgxStructs are the wanted structs of module github.com/jackc/pgx/v5.
var pgxStructs = []wantedStruct{
	{"github.com/jackc/pgx/v5", "Batch", "queuedQueries QueuedQueries"},
	{"github.com/jackc/pgx/v5", "Conn", "pgConn config"},
	{"github.com/jackc/pgx/v5", "ConnConfig", "Config Config.Host Config.Port Config.Database Config.User"},
	{"github.com/jackc/pgx/v5", "QueuedQuery", "query arguments SQL Arguments"},
	{"github.com/jackc/pgx/v5", "baseRows", "resultReader err closed conn"},
	{"github.com/jackc/pgx/v5", "batchResults", "conn endTraced"},
	{"github.com/jackc/pgx/v5", "dbTx", "conn"},
	{"github.com/jackc/pgx/v5", "pipelineBatchResults", "conn endTraced"},
	{"github.com/jackc/pgx/v5/pgconn", "Config", "Host Port Database User Fallbacks"},
	{"github.com/jackc/pgx/v5/pgconn", "FallbackConfig", "Host Port"},
	{"github.com/jackc/pgx/v5/pgconn", "PgConn", "config status"},
	{"github.com/jackc/pgx/v5/pgconn", "PgError", "Code"},
	{"github.com/jackc/pgx/v5/pgxpool", "Config", "ConnConfig"},
	{"github.com/jackc/pgx/v5/pgxpool", "Pool", "config"},
}

// mongoStructs returns the wanted structs of a major version of the MongoDB driver.
func mongoStructs(module string) []wantedStruct {
	pkg := module + "/x/mongo/driver"
	return []wantedStruct{
		{pkg, "Error", "Code Wrapped"},
		{pkg, "Operation", "Database Name omitReadPreference"},
		{pkg, "WriteCommandError", "WriteConcernError WriteErrors"},
		{pkg, "WriteConcernError", "Code"},
		{pkg, "WriteError", "Code"},
		{pkg, "startedInformation", "cmd cmdName serverAddress"},
	}
}

// gorillaStructs are the wanted structs of module github.com/gorilla/mux.
var gorillaStructs = []wantedStruct{
	{"github.com/gorilla/mux", "Route", "regexp routeConf.regexp.path"},
	{"github.com/gorilla/mux", "routeRegexp", "template"},
	{"github.com/gorilla/mux", "routeRegexpGroup", "path"},
}

// chiStructs returns the wanted structs of a major version of the router chi.
func chiStructs(pkg string) []wantedStruct {
	return []wantedStruct{{pkg, "Context", "RoutePatterns routePattern"}}
}

// ginStructs are the wanted structs of module github.com/gin-gonic/gin.
var ginStructs = []wantedStruct{
	{"github.com/gin-gonic/gin", "Context", "fullPath"},
}

// echoStructs are the wanted structs of module github.com/labstack/echo/v4.
var echoStructs = []wantedStruct{
	{"github.com/labstack/echo/v4", "context", "path handler"},
}

// newEchoStructs are the wanted structs of module github.com/labstack/echo/v5.
var newEchoStructs = []wantedStruct{
	{"github.com/labstack/echo/v5", "Context", "path route"},
	{"github.com/labstack/echo/v5", "RouteInfo", "Method"},
}

// traceStructs are the wanted structs of module go.opentelemetry.io/otel/trace.
var traceStructs = []wantedStruct{
	{"go.opentelemetry.io/otel/trace", "EventConfig", "attributes timestamp"},
	{"go.opentelemetry.io/otel/trace", "SpanConfig", "attributes timestamp links newRoot spanKind"},
	{"go.opentelemetry.io/otel/trace", "SpanContext", "traceID spanID traceFlags traceState remote"},
	{"go.opentelemetry.io/otel/trace", "TraceState", "list"},
	{"go.opentelemetry.io/otel/trace", "TracerConfig", "instrumentationVersion schemaURL"},
	{"go.opentelemetry.io/otel/trace", "nonRecordingSpan", "sc"},
}

// telemetryStructs are the wanted structs of module go.opentelemetry.io/otel.
var telemetryStructs = []wantedStruct{
	{"go.opentelemetry.io/otel/attribute", "KeyValue", "Key Value Value.vtype Value.numeric Value.stringly Value.slice"},
	{"go.opentelemetry.io/otel/attribute", "Value", "vtype numeric stringly array slice"},
	{"go.opentelemetry.io/otel/internal/global", "nonRecordingSpan", "sc tracer"},
	{"go.opentelemetry.io/otel/internal/global", "tracer", "name opts provider delegate"},
	{"go.opentelemetry.io/otel/internal/global", "tracerProvider", "delegate"},

	// Attributes were labels before v0.18.0.
	{"go.opentelemetry.io/otel/label", "KeyValue", "Key Value Value.vtype Value.numeric Value.stringly Value.array"},
}

// oldTraceStructs are structs of package go.opentelemetry.io/otel/trace whose fields were exported. It was a part of module
// go.opentelemetry.io/otel before v0.17.0.
var oldTraceStructs = []wantedStruct{
	{"go.opentelemetry.io/otel/trace", "SpanConfig", "Attributes Timestamp Links NewRoot SpanKind"},
	{"go.opentelemetry.io/otel/trace", "SpanContext", "TraceID SpanID TraceFlags"},
}

// sdkStructs are the wanted structs of module go.opentelemetry.io/otel/sdk.
var sdkStructs = []wantedStruct{
	{"go.opentelemetry.io/otel/sdk/trace", "TracerProvider", "spanProcessors"},
	{"go.opentelemetry.io/otel/sdk/trace", "nonRecordingSpan", "sc"},
	{"go.opentelemetry.io/otel/sdk/trace", "recordingSpan", "attributes parent spanContext spanKind tracer"},
	{"go.opentelemetry.io/otel/sdk/trace", "tracer", "provider instrumentationScope.Name instrumentationLibrary.Name"},
}
