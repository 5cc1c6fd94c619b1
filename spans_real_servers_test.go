package loupe_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testport"
	"github.com/loupe-go/loupe/internal/testpostgres"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// Libraries of spans.
const (
	libraryHTTP  = "net/http"
	libraryGRPC  = "google.golang.org/grpc"
	librarySQL   = "database/sql"
	libraryPGX   = "github.com/jackc/pgx/v5"
	libraryRedis = "github.com/redis/go-redis/v9"
	libraryMongo = "go.mongodb.org/mongo-driver"
)

var allServers = flag.Bool("servers.all", false, "also compare the spans of servers whose builds take long, and attach to each server 20 times before")

// TestSpansRealServers compares the spans of servers that were not written for Loupe, under load, with what they and the databases that they
// use have counted or logged. Before that, it attaches and detaches while they serve.
func TestSpansRealServers(t *testing.T) {
	testtarget.Whole(t, "with servers that use gRPC, Redis, PostgreSQL and the protocol of MongoDB")
	tests := map[string]func(t *testing.T, spec realtarget.Spec){"etcd-3.7": spansOfEtcd, "registry": spansOfRegistry, "ferretdb": spansOfFerretDB,
		"miniflux": spansOfMiniflux, "step-ca": spansOfStepCA}
	for _, spec := range realtarget.Servers() {
		if (spec.Name == "step-ca" || spec.Name == "ferretdb") && !*allServers { // their builds take long
			continue
		}
		t.Run(spec.Name, func(t *testing.T) { tests[spec.Name](t, spec) })
	}
}

// A tally is a number of spans, and what a program has counted, by a key that both have.
type tally struct {
	mu   sync.Mutex
	got  map[string]int
	key  func(*spans.Span) string // empty: the span is not compared
	read func() map[string]int
}

// attachTally attaches to a process and counts its spans. end detaches when all spans are there, and compares them.
func attachTally(t *testing.T, pid int, opt loupe.SpanOptions, book *tally) (end func()) {
	t.Helper()
	book.got = map[string]int{}
	opt.Handle = func(s *spans.Span) {
		book.mu.Lock()
		defer book.mu.Unlock()
		if key := book.key(s); key != "" {
			book.got[key]++
		}
	}
	s := attach(t, pid, loupe.Options{Spans: opt})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range s.Events() {
		}
	}()
	before := book.read()
	return func() {
		t.Helper()
		equal := func() (got, want map[string]int, ok bool) {
			want = book.read()
			for key, n := range before {
				if want[key] -= n; want[key] == 0 {
					delete(want, key)
				}
			}
			book.mu.Lock()
			defer book.mu.Unlock()
			got = maps.Clone(book.got)
			return got, want, maps.Equal(got, want)
		}
		// Clients have their answers before the server has counted them, and before the last spans end.
		for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
			if _, _, ok := equal(); ok {
				break
			}
		}
		err := s.Detach()
		<-done
		c, countErr := s.SpanCounts()
		if err != nil || countErr != nil || c.Notes.Lost+c.Routes.Lost+c.Mismatched+c.Unobserved+c.NoHeader != 0 {
			t.Errorf("%v, %v, %+v", err, countErr, c)
		}
		got, want, ok := equal()
		if !ok || len(want) < 2 {
			t.Errorf("spans %v\nwant  %v", got, want)
		}
		t.Logf("%v", got)
	}
}

// serverLoad has a server work while engines attach and detach, and then while its spans are compared.
func serverLoad(t *testing.T, p *realtarget.Process, opt loupe.SpanOptions, book *tally) {
	t.Helper()
	load := p.StartLoad()
	cycles := 4
	if *allServers {
		cycles = 20
	}
	for i := range cycles {
		passing := loupe.SpanOptions{Handle: func(*spans.Span) {}}
		if i%2 == 0 {
			passing.Propagation = opt.Propagation
		}
		s := attach(t, p.PID(), loupe.Options{Spans: passing})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range s.Events() {
			}
		}()
		load.Await(t, 20)
		if err := s.Detach(); err != nil {
			t.Error(err)
		}
		<-done
	}
	if _, err := load.Stop(); err != nil {
		t.Errorf("while attaching and detaching: %v", err)
	}
	end := attachTally(t, p.PID(), opt, book)
	load = p.StartLoad()
	load.Await(t, 1000)
	if _, err := load.Stop(); err != nil {
		t.Error(err)
	}
	end()
}

// carrying are options with which requests that a program sends carry contexts. Engine uprobe warns that they do not.
func carrying() loupe.SpanOptions {
	if *engine == string(loupe.EngineInline) {
		return loupe.SpanOptions{Propagation: &loupe.Propagation{}}
	}
	return loupe.SpanOptions{}
}

// spansOfEtcd compares RPCs with the metric of the RPCs that the server has handled.
func spansOfEtcd(t *testing.T, spec realtarget.Spec) {
	p := spec.Start(t)
	code := func(name string) string {
		return strings.Replace(strings.ToUpper(strings.ReplaceAll(name, "_", "")), "CANCELLED", "CANCELED", 1)
	}
	serverLoad(t, p, carrying(), &tally{
		read: func() map[string]int {
			list := map[string]int{}
			for labels, n := range p.Counters("grpc_server_handled_total") {
				var status, method, service, typ string
				if _, err := fmt.Sscanf(strings.ReplaceAll(labels, ",", " "), "grpc_code=%q grpc_method=%q grpc_service=%q grpc_type=%q", &status, &method,
					&service, &typ); err != nil {
					t.Fatalf("labels %s: %v", labels, err)
				}
				if n > 0 {
					list[service+"/"+method+" "+code(status)] = n
				}
			}
			return list
		},
		key: func(s *spans.Span) string {
			if s.Library != libraryGRPC || s.Kind != trace.SpanKindServer {
				return ""
			}
			return s.Name + " " + code(attributes(s)["rpc.response.status_code"])
		},
	})
}

// requestKey is the key of a span of a request by HTTP. It is empty for pages about the server, and for other spans.
func requestKey(s *spans.Span) string {
	a := attributes(s)
	if s.Library != libraryHTTP || s.Kind != trace.SpanKindServer || strings.HasPrefix(a["url.path"], "/debug/") || a["url.path"] == "/metrics" {
		return ""
	}
	return s.Name + " " + a["http.response.status_code"]
}

// requestName returns the name of the span of a request whose path has a route.
func requestName(method, path string, routes [][2]string) string {
	for _, r := range routes {
		if regexp.MustCompile("^" + r[0] + "$").MatchString(path) {
			return method + " " + r[1]
		}
	}
	return method
}

// spansOfRegistry compares requests with the access log, and commands with the statistics of Redis. The routes of a registry have long
// patterns.
func spansOfRegistry(t *testing.T, spec realtarget.Spec) {
	redis := startRedis(t)
	p := spec.StartWith(t, redis)
	routes := [][2]string{{"/v2/", "/v2/"}, {"/v2/[a-z0-9/-]+/tags/list", "/v2/{name}/tags/list"}, {"/v2/[a-z0-9/-]+/blobs/uploads/", "/v2/{name}/blobs/uploads/"},
		{"/v2/[a-z0-9/-]+/blobs/uploads/.+", "/v2/{name}/blobs/uploads/{uuid}"}, {"/v2/[a-z0-9/-]+/blobs/sha256:.+", "/v2/{name}/blobs/{digest}"},
		{"/v2/[a-z0-9/-]+/manifests/.+", "/v2/{name}/manifests/{reference}"}}
	line := regexp.MustCompile(`"([A-Z]+) ([^ ?]+)\S* HTTP/1.1" (\d+) `)
	serverLoad(t, p, carrying(), &tally{
		read: func() map[string]int {
			list := map[string]int{}
			for _, m := range line.FindAllStringSubmatch(readFile(t, p.AccessLog()), -1) {
				list[requestName(m[1], m[2], routes)+" "+m[3]]++
			}
			for _, m := range regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`).FindAllStringSubmatch(askRedis(t, redis, "INFO commandstats"), -1) {
				// A connection begins with hello and ping.
				if !slices.Contains([]string{"hello", "ping", "info", "quit"}, m[1]) {
					list["redis "+m[1]], _ = strconv.Atoi(m[2])
				}
			}
			return list
		},
		key: func(s *spans.Span) string {
			if s.Library == libraryRedis {
				return "redis " + s.Name
			}
			return requestKey(s)
		},
	})
}

// spansOfMiniflux compares requests with the log of requests, and statements with the log of PostgreSQL. The log has no statuses: those of the
// requests are known, and clients check them.
func spansOfMiniflux(t *testing.T, spec realtarget.Spec) {
	db := testpostgres.Start(t)
	p := spec.StartWith(t, db.DSN("reader"))
	routes := [][2]string{{"/v1/api-keys", "/v1/api-keys 201"}, {"/v1/me", "/v1/me 200"}, {"/v1/feeds", "/v1/feeds 200"}, {`/v1/entries\?limit=10`, "/v1/entries 200"},
		{"/v1/categories", "/v1/categories 201"}, {"/v1/feeds/999999", "/v1/feeds/{feedID} 404"}, {`/v1/entries\?status=bad`, "/v1/entries 400"},
		{"/healthcheck", "/healthcheck 200"}}
	serverLoad(t, p, carrying(), &tally{
		read: func() map[string]int {
			list := statements(db, "reader")
			for text := range strings.Lines(readFile(t, p.AccessLog())) {
				var line struct {
					Msg     string
					Request struct{ Method, URI string }
				}
				if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "Incoming request" {
					list[requestName(line.Request.Method, line.Request.URI, routes)]++
				}
			}
			return list
		},
		key: func(s *spans.Span) string {
			if s.Library == librarySQL {
				return statementKey(s)
			}
			return requestKey(s)
		},
	})
}

// spansOfStepCA compares requests with the access log, and statements with the log of PostgreSQL.
func spansOfStepCA(t *testing.T, spec realtarget.Spec) {
	db := testpostgres.Start(t)
	p := spec.StartWith(t, db.DSN("authority"))
	routes := [][2]string{{"/acme/acme/new-nonce", "/acme/{provisionerID}/new-nonce"}, {"/acme/acme/directory", "/acme/{provisionerID}/directory"},
		{"/acme/acme/new-account", "/acme/{provisionerID}/new-account"}, {"/1.0/provisioners", "/1.0/provisioners"}, {"/root/.*", "/root/{sha}"}, {"/health", "/health"}}
	serverLoad(t, p, carrying(), &tally{
		read: func() map[string]int {
			list := statements(db, "authority")
			for text := range strings.Lines(readFile(t, p.AccessLog())) {
				var line struct {
					Method, Path string
					Status       int
				}
				if json.Unmarshal([]byte(text), &line) == nil && line.Method != "" {
					list[fmt.Sprintf("%s %d", requestName(line.Method, line.Path, routes), line.Status)]++
				}
			}
			return list
		},
		key: func(s *spans.Span) string {
			if s.Library == librarySQL {
				if a := attributes(s); a["db.namespace"] != "stepca" || a["server.address"] == "" || a["server.port"] == "" {
					t.Errorf("attributes %v", a)
				}
				return statementKey(s)
			}
			return requestKey(s)
		},
	})
}

// spansOfFerretDB compares the statements of a server that speaks the protocol of MongoDB with the log of PostgreSQL, and the commands of
// a client with what that server has counted.
func spansOfFerretDB(t *testing.T, spec realtarget.Spec) {
	db := testpostgres.Start(t)
	p := spec.StartWith(t, db.DSN("any"))
	client := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "curator", Go: testtarget.Latest(), Stripped: true, Flags: "-modfile=mongo-2.10.mod"}))
	command := func(line, want string) {
		t.Helper()
		if got := client.Command(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	command("server "+p.Address(), "ok")
	command("use 1 1", "load") // which makes tables
	duplicates := 0
	commands := &tally{
		read: func() map[string]int {
			list := map[string]int{}
			for labels, n := range p.Counters("ferretdb_client_responses_total") {
				var argument, command, opcode, outcome string
				if _, err := fmt.Sscanf(strings.ReplaceAll(labels, ",", " "), "argument=%q command=%q opcode=%q result=%q", &argument, &command, &opcode,
					&outcome); err != nil {
					t.Fatalf("labels %s: %v", labels, err)
				}
				switch command {
				case "hello", "isMaster", "ismaster", "unknown", "endSessions": // of connections
				default:
					list[command] += n // an insert with an error is answered with ok, as MongoDB does
				}
			}
			return list
		},
		key: func(s *spans.Span) string {
			if s.Library != libraryMongo {
				return ""
			}
			if s.Status == codes.Error && attributes(s)["db.response.status_code"] == "11000" {
				duplicates++
			}
			return attributes(s)["db.operation.name"]
		},
	}
	const application = "FerretDB" // it gives itself this name
	endServer := attachTally(t, p.PID(), loupe.SpanOptions{}, &tally{
		read: func() map[string]int { return statements(db, application) },
		key: func(s *spans.Span) string {
			if s.Library != libraryPGX {
				return ""
			}
			return statementKey(s)
		},
	})
	endClient := attachTally(t, client.PID(), carrying(), commands)
	command("use 10 20", "load")
	endClient()
	endServer()
	if duplicates != 10*20 {
		t.Errorf("%d inserts failed because of a duplicate, want one for each request", duplicates)
	}
}

// statements returns the numbers of statements that a program has executed, by their key.
func statements(db *testpostgres.Server, application string) map[string]int {
	list := map[string]int{}
	for _, text := range db.Statements(application) {
		if text != "-- ping" {
			list[statementStart(text)]++
		}
	}
	return list
}

// statementKey is the key of the span of a statement.
func statementKey(s *spans.Span) string {
	a := attributes(s)
	if text := a["db.query.text"]; text != "" {
		return statementStart(text)
	}
	return statementStart(a["db.operation.name"])
}

// statementStart returns the first line of a statement, without more lines as in the log, up to its first literal, which is a question
// mark in spans, or its first parameter.
func statementStart(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if i := strings.IndexAny(text, "'?0123456789"); i >= 0 {
		text = text[:i]
	}
	return cmp.Or(strings.ToUpper(strings.TrimSpace(text)), "(several lines)")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startRedis starts a Redis server and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	testtarget.Needs(t, "redis-server", "redis-server")
	port := strconv.Itoa(testport.Port(t))
	addr := net.JoinHostPort("127.0.0.1", port)
	cmd := testcmd.Within(t, 0, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return addr
		}
		if time.Since(begun) > time.Minute {
			t.Fatal(err)
		}
	}
}

// askRedis sends a command whose answer is a text, and returns that.
func askRedis(t *testing.T, addr, command string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\r\nQUIT\r\n", command)
	answer, err := io.ReadAll(c)
	if err != nil || !bytes.HasPrefix(answer, []byte("$")) {
		t.Fatalf("%s: %q, %v", command, answer, err)
	}
	return string(answer)
}
