package main

import (
	"slices"
	"strings"
)

// A module is a module whose structs are wanted.
type module struct {
	path     string
	since    string            // the first version that is examined; not for the standard library
	versions []string          // the versions that are examined in addition to the newest one, if the module has only pseudo-versions
	requires map[string]string // of versions that have no go.mod file: versions of modules by path
	structs  []wantedStruct
}

// A wantedStruct is a struct and the paths of its wanted fields, separated by spaces.
type wantedStruct struct {
	pkg, name, fields string
}

// path returns the path of a field in the table.
func (s wantedStruct) path(field string) string { return s.pkg + "." + s.name + "." + field }

// paths returns the paths of all wanted fields.
func (m module) paths() []string {
	var paths []string
	for _, s := range m.structs {
		for field := range strings.FieldsSeq(s.fields) {
			paths = append(paths, s.path(field))
		}
	}
	return paths
}

// tags are the build tags with which the sources of a module are examined.
var tags = map[string][]string{
	"golang.org/x/net": {"http2legacy"}, // without it, package http2 only calls net/http since Go 1.27
}

// wanted are the modules whose fields are in the table.
var wanted = []module{
	{path: "std", structs: standardStructs},
	{path: "google.golang.org/grpc", since: "v1.14.0", structs: grpcStructs,
		requires: map[string]string{"golang.org/x/net": "v0.0.0-20180826012351-8a410e7b638d"}},
	{path: "google.golang.org/genproto", structs: statusStructs, versions: []string{
		"v0.0.0-20170531203552-aa2eb687b4d3",
		"v0.0.0-20180427144745-86e600f69ee4",
		"v0.0.0-20180817151627-c66870c02cf8",
		"v0.0.0-20200513103714-09dca8ec2884", // the last one before the fields of messages were in another order
		"v0.0.0-20200514193133-8feb7f20f2a2",
		"v0.0.0-20230410155749-daa745c078e1", // with package status, unlike the next one
		"v0.0.0-20230526161137-0005af68ea54",
	}},
	{path: "google.golang.org/genproto/googleapis/rpc", structs: statusStructs, versions: []string{
		"v0.0.0-20230525234030-28d5490b6b19", // the first one that gRPC requires
		"v0.0.0-20240513163218-0867130af1f8",
		"v0.0.0-20250303144028-a0af3efb3deb",
	}},
	{path: "golang.org/x/net", since: "v0.1.0", structs: http2Structs},
	{path: "github.com/segmentio/kafka-go", since: "v0.4.1", structs: kafkaStructs},
	{path: "github.com/twmb/franz-go", since: "v1.0.0", structs: franzStructs},
	{path: "github.com/IBM/sarama", since: "v1.40.0", structs: saramaStructs("github.com/IBM/sarama")},
	{path: "github.com/Shopify/sarama", since: "v1.19.0", structs: saramaStructs("github.com/Shopify/sarama")},
	{path: "github.com/go-redis/redis/v8", since: "v8.0.0", structs: redisStructs("github.com/go-redis/redis/v8", "netConn")},
	{path: "github.com/redis/go-redis/v9", since: "v9.0.0", structs: redisStructs("github.com/redis/go-redis/v9", "netConn netConnAtomic")},
	{path: "github.com/jackc/pgx/v5", since: "v5.0.0", structs: pgxStructs},
	{path: "go.mongodb.org/mongo-driver", since: "v1.16.0", structs: mongoStructs("go.mongodb.org/mongo-driver")},
	{path: "go.mongodb.org/mongo-driver/v2", since: "v2.0.0", structs: mongoStructs("go.mongodb.org/mongo-driver/v2")},
	{path: "github.com/gorilla/mux", since: "v1.4.0", structs: gorillaStructs},
	{path: "github.com/go-chi/chi/v5", since: "v5.0.0", structs: chiStructs("github.com/go-chi/chi/v5")},
	{path: "github.com/gin-gonic/gin", since: "v1.5.0", structs: ginStructs},
	{path: "github.com/labstack/echo/v4", since: "v4.0.0", structs: echoStructs},
	{path: "github.com/labstack/echo/v5", since: "v5.0.0", structs: newEchoStructs},
	{path: "go.opentelemetry.io/otel", since: "v0.14.0", structs: slices.Concat(telemetryStructs, oldTraceStructs)},
	{path: "go.opentelemetry.io/otel/sdk", since: "v1.0.0", structs: sdkStructs},
	{path: "go.opentelemetry.io/otel/trace", since: "v0.17.0", structs: slices.Concat(traceStructs, oldTraceStructs)},
}
