package library_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/library"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestDWARF compares the fields of the standard library with the DWARF of a program. The program has all of the structs.
func TestDWARF(t *testing.T) {
	var specs []testtarget.Spec
	for _, release := range testtarget.Versions() {
		const oldestMinor = 19
		if minor(t, release) >= oldestMinor {
			specs = append(specs, testtarget.Spec{Program: "shop", Go: release, Arch: testtarget.ARM64},
				testtarget.Spec{Program: "shop", Go: release, Arch: testtarget.AMD64})
		}
	}
	for _, spec := range testtarget.Last(t, specs) {
		t.Run(spec.String(), func(t *testing.T) {
			bin, err := gobin.Open(testtarget.Build(t, spec))
			if err != nil {
				t.Fatal(err)
			}
			defer bin.Close()
			for _, field := range compare(t, bin, "std", "v"+spec.Go) {
				t.Errorf("%s is in the table, but not in the DWARF", field)
			}
		})
	}
}

// TestModulesDWARF compares the fields of modules with the DWARF of a program that requires them.
func TestModulesDWARF(t *testing.T) {
	testtarget.Whole(t, "downloads and compiles modules")
	for _, versions := range [][]any{{"v5.5.2", "v9.5.1", "v0.4.38", "v1.19.0", "v1.50.1"}, {"v5.13.0", "v9.23.0", "v0.4.51", "v1.47.0", "v1.85.0"}} {
		bin := buildModules(t, versions)
		compared := 0
		for _, dep := range bin.BuildInfo().Deps {
			missing := compare(t, bin, dep.Path, dep.Version)
			for _, field := range library.Fields() {
				if _, ok := library.Lookup(dep.Path, dep.Version, field); ok && !slices.Contains(missing, field) {
					compared++
				}
			}
		}
		const most = 60
		if compared < most {
			t.Errorf("%v: only %d fields compared", versions, compared)
		}
	}
}

// buildModules builds a program that requires versions of modules.
func buildModules(t *testing.T, versions []any) *gobin.Binary {
	t.Helper()
	dir := t.TempDir()
	const mod = "module example.com/modules\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/jackc/pgx/v5 %s\n\tgithub.com/redis/go-redis/v9 %s\n" +
		"\tgithub.com/segmentio/kafka-go %s\n\tgo.opentelemetry.io/otel %s\n\tgoogle.golang.org/grpc %s\n)\n"
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", fmt.Sprintf(mod, versions...))
	write("main.go", modulesProgram)
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", "modules"}} {
		cmd := testcmd.Command(t, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
		if err := cmd.Run(); err != nil {
			t.Fatalf("go %v: %v", args, err)
		}
	}
	bin, err := gobin.Open(filepath.Join(dir, "modules"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bin.Close() })
	return bin
}

// modulesProgram uses the modules.
const modulesProgram = `package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	ctx, span := otel.Tracer("modules").Start(context.Background(), "main")
	defer span.End()
	if conn, err := pgx.Connect(ctx, ""); err == nil {
		println(conn.SendBatch(ctx, &pgx.Batch{}).Close())
	}
	println(redis.NewClient(&redis.Options{}).Get(ctx, "key").String())
	writer := kafka.Writer{}
	println(writer.WriteMessages(ctx, kafka.Message{}))
	reader := kafka.NewReader(kafka.ReaderConfig{})
	reader.ReadMessage(ctx)
	conn, err := grpc.Dial("", grpc.WithTransportCredentials(insecure.NewCredentials()))
	println(conn.Invoke(ctx, "/", nil, nil), err)
	println(grpc.NewServer().Serve(nil))
}
`

// compare compares the fields of a module with the DWARF of an executable. It returns those that the DWARF does not have.
func compare(t *testing.T, bin *gobin.Binary, module, version string) (missing []string) {
	t.Helper()
	fields := library.Fields()
	found, err := bin.FieldOffsets(fields)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		want, inDWARF := found[field]
		got, ok := library.Lookup(module, version, field)
		switch {
		case ok && !inDWARF:
			missing = append(missing, field)
		case ok && got != want:
			t.Errorf("%s of %s %s: offset %d in the table, %d in the DWARF", field, module, version, got, want)
		case !ok && inDWARF && !isInOther(field, module):
			t.Errorf("%s of %s %s: offset %d in the DWARF, but not in the table", field, module, version, want)
		}
	}
	return missing
}

// isInOther reports whether the table has a field for another module.
func isInOther(field, module string) bool {
	return slices.ContainsFunc(library.Ranges(field), func(r library.Range) bool { return r.Module != module })
}

// minor returns the number of the minor Go version of a release such as "1.27.4".
func minor(t *testing.T, release string) int {
	n, err := strconv.Atoi(strings.Split(release, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
